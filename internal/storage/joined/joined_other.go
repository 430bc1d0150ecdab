//go:build !unix

package joined

import (
	"errors"

	"github.com/rules-offload/rules_offload/engine/content"
)

func pageSize() int64 { return 4096 }

func (j *Parts) reserve(size int) error {
	j.data = make([]byte, size)
	return nil
}

func (j *Parts) mapPages(int64, content.Content) error { return errors.ErrUnsupported }

// Trim releases the memory of mapped pages. Here it has no effect.
func (j *Parts) Trim() {}

// Close releases the memory.
func (j *Parts) Close() error {
	*j = Parts{}
	return nil
}

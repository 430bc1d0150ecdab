//go:build !unix

package files

import (
	"errors"

	"github.com/rules-offload/rules_offload/engine/content"
)

const pageSize = 4096

func (j *Joined) reserve(size int) error {
	j.data = make([]byte, size)
	return nil
}

func (j *Joined) mapPages(int64, content.Content) error { return errors.ErrUnsupported }

// Trim releases the memory of mapped pages. Here it has no effect.
func (j *Joined) Trim() {}

// Close releases the memory.
func (j *Joined) Close() error {
	*j = Joined{}
	return nil
}

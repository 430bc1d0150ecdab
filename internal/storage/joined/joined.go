// Package joined gives the parts of several files as one sequence of bytes.
package joined

import (
	"fmt"
	"os"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Parts is several contents as one sequence of bytes. If the offsets allow it,
// whole pages of the files are mapped at adjacent addresses instead of copied.
type Parts struct {
	data     []byte
	rest     []content.Part // to be copied by Fill
	copied   int64
	memory   []byte           // memory that Close unmaps; nil for the heap
	mappings []*guard.Mapping // inside memory
}

// New returns size bytes with every part at its offset. The parts must be in
// order and inside the size. The bytes are complete after Fill, which copies
// the data that cannot be mapped; bytes outside all parts are zero. The inputs
// of the contents must stay open until Close.
func New(size int64, parts []content.Part) (*Parts, error) {
	if int64(int(size)) != size {
		return nil, fmt.Errorf("%d bytes cannot be mapped", size)
	}
	j := new(Parts)
	if err := j.reserve(int(size)); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := j.join(p); err != nil {
			j.Close()
			return nil, err
		}
	}
	for _, p := range j.rest {
		j.copied += p.Content.Len()
	}
	return j, nil
}

// join maps the whole pages of p, if possible, and records the rest for Fill.
func (j *Parts) join(p content.Part) error {
	c := p.Content
	n := c.Len()
	page := pageSize()
	if file, off := mappedFile(c); file != nil && j.memory != nil && (off-p.Offset)%page == 0 {
		head := min((page-p.Offset%page)%page, n)
		if whole := (n - head) / page * page; whole > 0 {
			if err := j.mapPages(p.Offset+head, c.Slice(head, whole)); err != nil {
				return err
			}
			j.later(p.Offset, c.Slice(0, head))
			j.later(p.Offset+head+whole, c.Slice(head+whole, n-head-whole))
			return nil
		}
	}
	j.later(p.Offset, c)
	return nil
}

// mappedFile returns the mapped file that c is a range of and the offset in it, nil for other contents.
func mappedFile(c content.Content) (*guard.File, int64) {
	file, off := c.File()
	in, ok := file.(interface {
		MappedFile() *os.File
		Name() string
		Size() int64
	})
	if !ok {
		return nil, 0
	}
	mapped := in.MappedFile()
	if mapped == nil {
		return nil, 0
	}
	return &guard.File{File: mapped, Label: in.Name(), Size: in.Size()}, off
}

func (j *Parts) later(off int64, c content.Content) {
	if c.Len() > 0 {
		j.rest = append(j.rest, content.Part{Offset: off, Content: c})
	}
}

// Copied returns the number of bytes that Fill copies, which is the memory
// required.
func (j *Parts) Copied() int64 { return j.copied }

// Fill copies the data that cannot be mapped. Call it once, before Bytes.
func (j *Parts) Fill() error {
	for _, p := range j.rest {
		if _, err := p.Content.ReadAt(j.data[p.Offset:p.Offset+p.Content.Len()], 0); err != nil {
			return err
		}
	}
	j.rest = nil
	return nil
}

// Bytes returns all bytes. They are valid until Close and must not be modified.
func (j *Parts) Bytes() []byte { return j.data }

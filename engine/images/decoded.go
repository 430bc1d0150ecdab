package images

import (
	"context"
	"errors"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/ccob"
)

// decoded is a compressed bundle that the search decoded to find its entries: a text
// bundle or a bundled object. Copy and Load read its bytes while they are kept.
type decoded struct {
	reader *ccob.Reader
	raw    *ccob.Raw // nil after forget
	kept   bool      // whether others than the search read raw
}

// forget releases the memory. Bytes that are required later are decoded again.
func (d *decoded) forget() {
	if d.raw != nil {
		d.raw.Release()
		d.raw = nil
	}
}

// decode decodes a bundle to find its entries. The bytes are kept for the visit of the
// source, or, for a bundle that is not in an archive, until the file is closed.
func (s *search) decode(ctx context.Context, reader *ccob.Reader, at place) (*decoded, error) {
	d := &decoded{reader: reader}
	err := s.withRoom(func() (err error) {
		d.raw, err = reader.Decode(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case s.opt.Visit != nil:
		d.kept = true
		s.decoded = append(s.decoded, d)
	case at.depth == 0 && !s.tight:
		d.kept = true
		s.in.decoded = append(s.in.decoded, d)
	}
	return d, nil
}

// withRoom calls fn, which decodes. If the budget is too small for that and for the bundles
// that the file keeps, the file keeps none, and withRoom calls fn again.
func (s *search) withRoom(fn func() error) error {
	err := fn()
	if isLimit(err) && len(s.in.decoded) > 0 {
		s.in.forget()
		s.tight = true
		return fn()
	}
	return err
}

// isLimit reports whether an operation failed because it requires more memory than the
// budget has.
func isLimit(err error) bool {
	_, limit := errors.AsType[*budget.LimitError](err)
	return limit
}

// forgetDecoded releases the bundles that the search decoded for the visit of a source.
func (s *search) forgetDecoded() {
	for _, d := range s.decoded {
		d.forget()
	}
	s.decoded = nil
}

// forget releases the bundles that the search decoded.
func (f *File) forget() {
	for _, d := range f.decoded {
		d.forget()
	}
	f.decoded = nil
}

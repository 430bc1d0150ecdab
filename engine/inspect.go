package engine

import "context"

// InspectOptions say what Inspect looks at.
type InspectOptions struct {
	Input string
}

// Inspect returns the device images in a file, however they are stored. An
// image that is an offload binary itself is replaced by the images in it.
func (s *Session) Inspect(ctx context.Context, opt InspectOptions) (images []*Embedded, err error) {
	err = s.find(ctx, opt.Input, Everything, func(_ context.Context, f *finder) error {
		images = nil
		for _, e := range f.images {
			inner, err := f.unwrap(e)
			if err != nil {
				return err
			}
			images = append(images, inner...)
		}
		return nil
	})
	return images, err
}

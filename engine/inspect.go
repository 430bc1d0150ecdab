package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/codeobject"
	"github.com/rules-offload/rules_offload/engine/cubin"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/ptx"
)

// InspectOptions say what Inspect looks at.
type InspectOptions struct {
	Input string
}

// FormBare is a file or archive member that is a device image itself.
const FormBare Form = "code object"

// Inspect returns the device images in a file, however they are stored. An
// image that is an offload binary itself is replaced by the images in it. A
// file that is a code object is an image, too.
func (s *Session) Inspect(ctx context.Context, opt InspectOptions) (images []*Embedded, err error) {
	err = s.find(ctx, opt.Input, Everything, func(_ context.Context, f *finder) error {
		images, err = f.inspected()
		return err
	})
	return images, err
}

// inspected returns what Inspect returns.
func (f *finder) inspected() (images []*Embedded, err error) {
	for _, e := range f.images {
		inner, err := f.unwrap(e)
		if err != nil {
			return nil, err
		}
		images = append(images, inner...)
	}
	if len(images) > 0 {
		return images, nil
	}
	all := f.input.All()
	if e := bareImage(all.Bytes()); e != nil {
		e.Form, e.Size, e.content, e.file = FormBare, all.Len(), all, f.input.Name()
		images = append(images, e)
	}
	return images, nil
}

// bareImage describes a file that is device code itself, nil for other files.
func bareImage(data []byte) *Embedded {
	e := &Embedded{Offload: "none", Kind: offloadbinary.KindOfData(data)}
	switch kernels.Identify(data) {
	case kernels.CodeObject:
		e.Triple = "amdgcn-amd-amdhsa"
		if t, err := codeobject.ParseTarget(data); err == nil {
			e.Arch = t.ID()
		}
	case kernels.Cubin:
		e.Triple = "nvptx64-nvidia-cuda"
		if o, err := cubin.Parse(data); err == nil {
			e.Arch = o.Arch()
		}
	case kernels.PTX:
		e.Kind, e.Triple, e.Arch = offloadbinary.PTX, "nvptx64-nvidia-cuda", ptx.Target(data)
	case kernels.SPIRV:
	default:
		return nil
	}
	return e
}

package link

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/installed/coverage"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// MissingKernels are kernels of HIP that are in an image of the link, and not in the one which the runtime selects on
// some GPUs, because objects have no device code for its target.
type MissingKernels struct {
	coverage.Missing
	// Objects are the inputs with the kernels, and the members of archives, without code for the selected image.
	Objects []string
}

// String describes the kernels in one line.
func (m *MissingKernels) String() string {
	text := "on " + listed(m.GPUs) + ": " + m.MissingKernels.String()
	if len(m.Objects) > 0 {
		text += "; no code for it is in " + listed(m.Objects)
	}
	return text
}

// listed lists some names.
func listed(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// reportMissing calls Options.Missing with the kernels that are not in the images which the runtime selects. Images that
// cannot be read are not considered.
func (w *linker) reportMissing(ctx context.Context) error {
	links := w.plan.links()
	list := devicelink.Of(links, offloadbinary.HIP)
	if len(list) < 2 {
		return nil // no image hides another one
	}
	ids := devicelink.HIPTargets(w.Policy.Plan, links, list)[1:]
	var bundle coverage.Bundle
	all := make(map[string]bool)
	byID := make(map[string]*Link)
	for k, l := range list {
		link := &w.plan.Links[l]
		img, ok := w.describe(link.Output)
		if !ok {
			return nil
		}
		img.ID = ids[k]
		bundle.Images = append(bundle.Images, img)
		byID[img.ID] = link
		for name := range img.Kernels {
			all[name] = true
		}
	}
	found := coverage.MissingIn([]coverage.Bundle{bundle}, all)
	if len(found) == 0 {
		return ctx.Err()
	}
	if registered := w.registered(); len(registered) > 0 {
		found = coverage.MissingIn([]coverage.Bundle{bundle}, registered)
	}
	for _, m := range found {
		w.Missing(&MissingKernels{m, w.lacking(byID, &m)})
	}
	return ctx.Err()
}

// describe reads the kernels of a file of the device links.
func (w *linker) describe(name string) (img coverage.Image, ok bool) {
	input, err := w.files.Open(w.path(name))
	if err != nil {
		return img, false
	}
	defer input.Close()
	err = guard.Contain(func() error {
		var described kernels.Image
		if err := described.Describe(input.All().Mapped(guard.Inside), ""); err != nil {
			return err
		}
		img = coverage.ImageOf(input.Size(), &described)
		return nil
	})
	return img, err == nil
}

// registered returns the names of the offload entries of the inputs.
func (w *linker) registered() map[string]bool {
	names := make(map[string]bool)
	for _, in := range w.Inputs {
		input, err := w.files.Open(in.Name)
		if err != nil {
			continue
		}
		_ = guard.Contain(func() error {
			for _, symbol := range w.hostEntries(in.Name, input.All(), 0) {
				names[strings.TrimPrefix(symbol, embedding.EntryPrefix)] = true
			}
			return nil
		})
		input.Close()
	}
	return names
}

// lacking returns the objects that have missing kernels in other images, and no image in the link of the selected one.
func (w *linker) lacking(byID map[string]*Link, m *coverage.Missing) (names []string) {
	selected := make(map[string]bool)
	for _, i := range byID[m.Image].Images {
		selected[w.sourceOf(i)] = true
	}
	for _, id := range m.In {
		for k, i := range byID[id].Images {
			name := w.sourceOf(i)
			if selected[name] || slices.Contains(names, name) {
				continue
			}
			img, ok := w.describe(byID[id].Files[k])
			if !ok || len(img.Kernels) == 0 || slices.ContainsFunc(m.Kernels, func(kernel string) bool { return img.Kernels[kernel] }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// sourceOf returns the input with image i, and the member of an archive that has it.
func (w *linker) sourceOf(i int) string {
	image := w.plan.Images[i]
	if member := lastMember(image); member != "" {
		return image.File + "(" + member + ")"
	}
	return image.File
}

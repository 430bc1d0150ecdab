package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
)

// BundleEntry is one entry of a bundle to be made.
type BundleEntry struct {
	Target target.ID
	Input  string // file with the content; empty for an empty entry
}

// BundleOptions say what Bundle makes.
type BundleOptions struct {
	Type    FileType
	Entries []BundleEntry // in the order of the bundle
	Output  string

	// Align is what the offset of every entry is a multiple of, in bytes.
	Align uint64
	// ShareEqual stores equal contents once.
	ShareEqual bool
}

// Bundle puts the contents of entries into one file. The targets must have
// passed target.CheckTargets.
func (s *Session) Bundle(ctx context.Context, opt BundleOptions) error {
	items := make([]bundle.Item, len(opt.Entries))
	for i, entry := range opt.Entries {
		items[i].ID = entry.Target.String()
		if entry.Input == "" {
			continue
		}
		input, err := s.Files.Open(entry.Input)
		if err != nil {
			return err
		}
		defer input.Close()
		items[i].Content = input.All()
	}
	return s.write(ctx, func(out *files.Outputs) error {
		layout, err := bundle.Plan(items, bundle.Options{Align: opt.Align, ShareEqual: opt.ShareEqual})
		if err != nil {
			return err
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		if _, err := output.Reserve(layout.Size); err != nil {
			return err
		}
		if _, err := output.WriteAt(layout.Header, 0); err != nil {
			return err
		}
		return s.Budget.Each(ctx, len(layout.Contents), func(_ context.Context, i int) error {
			return output.CopyAt(layout.Contents[i].Content, layout.Contents[i].Offset)
		})
	})
}

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// BundleEntry is an entry of a bundle to write.
type BundleEntry struct {
	Target target.ID
	Input  string // file with the content; empty for an empty entry
}

// BundleOptions are the options of Bundle.
type BundleOptions struct {
	Type    bundle.FileType // "" is bundle.ObjectType
	Entries []BundleEntry   // in the order of the bundle
	Output  string

	// Align is the alignment of entry offsets in a binary bundle, in bytes; 0
	// means 1.
	Align uint64
	// ShareEqual stores equal contents of a binary bundle once.
	ShareEqual bool
	// Compress, if not nil, selects a compressed bundle. Objects are not
	// compressed.
	Compress *Compression
	// DryRun writes an empty file instead of an object with added sections.
	DryRun bool
}

// Compression selects how a bundle is compressed.
type Compression struct {
	Level   int // as in clang-offload-bundler -compression-level, whose default is 3
	Version int // of the container: 2 or 3; 0 means 3
	Frames  ccob.Frames
}

// BundleResult describes the output of Bundle.
type BundleResult struct {
	// Sections reports whether the entries were added to the host object as
	// sections.
	Sections bool
	// Compressed describes the compressed bundle; nil if the bundle is not
	// compressed.
	Compressed *ccob.Stats
	// Duration is the time that compression took.
	Duration time.Duration
}

// Bundle writes the contents of entries to one file. The error for targets that
// must not be in one bundle is that of target.CheckTargets, for an unknown type a
// *bundle.FileTypeError, and for a bundle that exceeds the limits of its container
// version a *ccob.LimitError.
func (s *Session) Bundle(ctx context.Context, opt BundleOptions) (_ BundleResult, err error) {
	defer guard.Into(&err)()
	var result BundleResult
	ids := make([]target.ID, len(opt.Entries))
	for i, e := range opt.Entries {
		ids[i] = e.Target
	}
	if err := target.Bundling.Check(ids); err != nil {
		return result, err
	}
	items, inputs, err := s.openEntries(opt.Entries)
	defer closeAll(inputs)
	if err != nil {
		return result, err
	}
	host := slices.IndexFunc(opt.Entries, func(e BundleEntry) bool { return e.Target.Kind == target.Host })
	if opt.Type == "" {
		opt.Type = bundle.ObjectType
	}
	if err := opt.Type.Check(); err != nil {
		return result, err
	}
	if opt.Type == bundle.ArchiveType {
		return result, errors.New("an archive consists of bundles, not of entries: use Archive")
	}
	err = s.files.WriteFile(ctx, opt.Output, func(output *files.Output) error {
		comment, text := opt.Type.Comment()
		switch {
		case text && opt.Compress == nil:
			return bundle.WriteText(output, items, comment)
		case text:
			var plain content.Buffer
			if err := bundle.WriteText(&plain, items, comment); err != nil {
				return err
			}
			pieces := []content.Part{{Content: content.Memory(plain.Bytes())}}
			return s.compress(ctx, output, pieces, opt.Compress, &result)
		case opt.Type == bundle.ObjectType && host >= 0 && object.IsObject(items[host].Content.Mapped(guard.Inside)):
			result.Sections = true
			if opt.DryRun {
				return nil
			}
			output.SetMode(inputs[host].Mode())
			return files.NameError(opt.Entries[host].Input, addSections(output, items, host))
		}
		layout, err := bundle.NewLayout(items, bundle.Options{Align: max(1, opt.Align), ShareEqual: opt.ShareEqual})
		if err != nil {
			return err
		}
		if opt.Compress != nil {
			return s.compress(ctx, output, layout.Parts, opt.Compress, &result)
		}
		return s.writeLayout(ctx, output, layout)
	})
	return result, err
}

// openEntries opens the inputs of entries, and returns the items of a bundle with their contents. An
// empty entry has no input.
func (s *Session) openEntries(entries []BundleEntry) ([]bundle.Item, []*files.Input, error) {
	items, inputs := make([]bundle.Item, len(entries)), make([]*files.Input, len(entries))
	for i, entry := range entries {
		items[i].ID = entry.Target.String()
		if entry.Input == "" {
			continue
		}
		var err error
		if inputs[i], err = s.files.Open(entry.Input); err != nil {
			return nil, inputs, err
		}
		items[i].Content = inputs[i].All()
	}
	return items, inputs, nil
}

// writeLayout writes a binary bundle, its entries in parallel.
func (s *Session) writeLayout(ctx context.Context, output *files.Output, layout *bundle.Layout) error {
	if _, err := output.Reserve(layout.Size); err != nil {
		return err
	}
	header, contents := layout.Parts[0], layout.Parts[1:]
	if err := output.CopyAt(header.Content, 0); err != nil {
		return err
	}
	return s.budget.Each(ctx, len(contents), func(_ context.Context, i int) error {
		c := &contents[i]
		s.meter.Expect(c.Content.Len())
		defer s.meter.Add(c.Content.Len())
		return output.CopyAt(c.Content, c.Offset)
	})
}

// compress writes the compressed bundle of pieces.
func (s *Session) compress(ctx context.Context, output content.Sink, pieces []content.Part, c *Compression, result *BundleResult) error {
	start := time.Now()
	for _, p := range pieces {
		s.meter.Expect(p.Content.Len())
	}
	stats, err := ccob.Encode(ctx, output, pieces, ccob.EncodeOptions{
		Version: c.Version,
		Level:   ccob.LevelOf(c.Level),
		Frames:  c.Frames,
		Budget:  s.budget,
		Done:    s.meter.Add,
	})
	result.Compressed, result.Duration = &stats, time.Since(start)
	return err
}

// addSections writes the host object with a section for every entry. The host's
// section has one zero byte, since the object itself is the host's content.
func addSections(output content.Sink, items []bundle.Item, host int) error {
	if err := bundle.Check(items); err != nil {
		return err
	}
	sections := make([]object.NewSection, len(items))
	for i, item := range items {
		body := item.Content
		if i == host {
			body = content.Memory([]byte{0})
		}
		sections[i] = object.BundleSection(bundle.SectionPrefix+item.ID, body)
	}
	return object.Rewrite(items[host].Content, object.Edits{Add: sections}, output)
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// KpackSplitOptions are the options of KpackSplit.
type KpackSplitOptions struct {
	Input, Output string
	// Dir is the directory for the archives, which are named Group_TARGET.kpack.
	Dir, Group string
	// Name is the library's name in keys; the file name of Output if empty.
	Name string
	// SearchPath is the path of the archives relative to the directory of the
	// library. If empty, it is derived from Output and Dir.
	SearchPath string
	Append     bool // whether the code is added to existing archives
	SplitSettings
}

// SplitSettings are the options of splitting a library that do not depend on where its parts are.
type SplitSettings struct {
	// Archs are the targets that get an archive; if empty, all targets do.
	Archs []string
	// Uncompressed stores code objects as they are, instead of with zstd at Level.
	Uncompressed bool
	Level        int
	// Complete adds code for a processor to the archives of its variants, if a source has no code for
	// them, because older runtimes search only one archive.
	Complete bool
	Verify   bool // see PruneOptions
}

// KpackSplitReport describes what KpackSplit wrote.
type KpackSplitReport struct {
	Input      string             `json:"input"`
	Output     string             `json:"output"`
	KernelName string             `json:"kernel_name"`
	SearchPath string             `json:"search_path"`
	SizeBefore int64              `json:"size_before"`
	SizeAfter  int64              `json:"size_after"`
	Archives   []KpackArchiveFile `json:"archives"`
	// Dropped are the targets whose code is in no archive.
	Dropped  []string `json:"dropped"`
	Warnings []string `json:"warnings"`
}

// KpackArchiveFile is an archive that was written.
type KpackArchiveFile struct {
	File    string `json:"file"`
	Arch    string `json:"arch"`
	Entries int    `json:"entries"`
	Size    int64  `json:"size"`
}

// KpackSplit writes a library without its device code, and archives with the
// device code.
func (s *Session) KpackSplit(ctx context.Context, opt KpackSplitOptions) (report KpackSplitReport, err error) {
	defer guard.Into(&err)()
	err = s.transform(ctx, []string{opt.Input}, func(inputs []*files.Input, out *files.Outputs) error {
		report, err = s.splitTo(ctx, inputs[0], out, opt)
		return err
	})
	return report, err
}

// checkGroup reports an error for a group that cannot be part of a file name.
func checkGroup(group string) error {
	if group == "" || strings.ContainsAny(group, "/\\\x00") {
		return fmt.Errorf("group %q: expected a name without slashes", group)
	}
	return nil
}

// kpackFile returns the name of the archive of a target.
func kpackFile(dir, group, arch string) string {
	return dir + "/" + KpackName(group, arch)
}

// splitTo writes the parts of a library in a transaction.
func (s *Session) splitTo(ctx context.Context, input *files.Input, out *files.Outputs, opt KpackSplitOptions) (report KpackSplitReport, err error) {
	if err := checkGroup(opt.Group); err != nil {
		return report, err
	}
	name := strings.ReplaceAll(opt.Name, `\`, "/")
	if name == "" {
		name = path.Base(filepath.ToSlash(opt.Output))
	}
	if opt.SearchPath == "" {
		if opt.SearchPath, err = KpackSearchPath(opt.Output, opt.Dir, opt.Group); err != nil {
			return report, err
		}
	}
	var existing []*files.Input
	defer func() { closeAll(existing) }()
	o := kpack.SplitOptions{Marker: kpack.Marker{Name: name, SearchPaths: []string{opt.SearchPath}}}
	if opt.Append {
		o.Existing = func(arch string) (*kpack.Archive, error) {
			old, err := s.files.OpenToReplace(kpackFile(opt.Dir, opt.Group, arch))
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			existing = append(existing, old)
			a, err := kpack.Parse(old.All())
			return a, in(old, err)
		}
	}
	err = s.splitCode(ctx, input, opt, o, &report, func(split *kpack.Split) error {
		report.Warnings = append(report.Warnings, split.Host.Warnings...)
		if split.Host.Appended > 0 {
			report.Warnings = append(report.Warnings, fmt.Sprintf("%d bytes after the last section are kept at the end of the file; a signature there is no longer valid", split.Host.Appended))
		}
		if err := s.writeLinked(input, out, opt.Output, split.Host, opt.Verify); err != nil {
			return err
		}
		if err := out.MakeDir(opt.Dir); err != nil {
			return err
		}
		for i, a := range split.Archives {
			file := &report.Archives[i]
			if file.Size, err = out.WriteFile(file.File, func(w *files.Output) error { return kpack.Write(w, a) }); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

// splitCode splits a library for opt, with what o has in addition, reports it, and calls write with the
// parts. The sizes of the archives are those that write sets.
func (s *Session) splitCode(ctx context.Context, input *files.Input, opt KpackSplitOptions, o kpack.SplitOptions, report *KpackSplitReport, write func(*kpack.Split) error) error {
	o.Group, o.Level, o.Archs, o.Complete, o.Budget = opt.Group, opt.Level, opt.Archs, opt.Complete, s.budget
	if o.Scheme = kpack.Zstd; opt.Uncompressed {
		o.Scheme = kpack.None
	}
	code, err := prune.ReadCode(ctx, input.All(), s.budget)
	if err != nil {
		return in(input, err)
	}
	defer code.Close()
	split, err := kpack.SplitCode(ctx, code, o)
	if err != nil {
		return in(input, err)
	}
	*report = KpackSplitReport{
		Input: input.Name(), Output: opt.Output, KernelName: o.Name, SearchPath: o.SearchPaths[0], SizeBefore: input.Size(),
		SizeAfter: split.Host.Size, Archives: []KpackArchiveFile{}, Dropped: append([]string{}, split.Dropped...), Warnings: []string{},
	}
	for _, a := range split.Archives {
		file := KpackArchiveFile{File: kpackFile(opt.Dir, opt.Group, a.Archs[0]), Arch: a.Archs[0], Entries: len(a.Entries)}
		report.Archives = append(report.Archives, file)
	}
	return write(split)
}

// KpackSearchPath returns the path of archives in dir relative to the directory of a
// library.
func KpackSearchPath(output, dir, group string) (string, error) {
	rel, err := filepath.Rel(filepath.Dir(output), dir)
	if err != nil {
		return "", fmt.Errorf("cannot make a path from %s to %s; specify the search path: %w", filepath.Dir(output), dir, err)
	}
	return path.Join(filepath.ToSlash(rel), group+"_@GFXARCH@.kpack"), nil
}

// writeLinked writes a linked file with the permissions of another.
func (s *Session) writeLinked(input *files.Input, out *files.Outputs, output string, layout *elfedit.Layout, verify bool) error {
	if verify {
		if err := checkLayout(input, layout); err != nil {
			return fmt.Errorf("%s: %w", output, err)
		}
	}
	_, err := out.WriteFile(output, func(w *files.Output) error {
		w.KeepMode(input.Mode())
		return layout.Write(w)
	})
	return err
}

// KpackMergeOptions are the options of KpackMerge.
type KpackMergeOptions struct {
	Input, Output string
	Archives      []string
	// MayBeEmpty permits that no archive has code for the library. Its bundles are then empty.
	MayBeEmpty bool
	MergeSettings
}

// MergeSettings are the options of merging a library that do not depend on where its parts are.
type MergeSettings struct {
	Compress bool // bundles
	Level    int  // of compression
	Verify   bool // see PruneOptions
}

// KpackMerge writes a library with the device code that archives contain for
// it.
func (s *Session) KpackMerge(ctx context.Context, opt KpackMergeOptions) (err error) {
	defer guard.Into(&err)()
	return s.transform(ctx, append([]string{opt.Input}, opt.Archives...), func(inputs []*files.Input, out *files.Outputs) error {
		h, err := kpack.ParseHost(inputs[0].All())
		if err != nil {
			return in(inputs[0], err)
		}
		o := kpack.MergeOptions{Compress: opt.Compress, Level: opt.Level, MayBeEmpty: opt.MayBeEmpty, Budget: s.budget}
		for _, input := range inputs[1:] {
			a, err := kpack.Parse(input.All())
			if err != nil {
				return in(input, err)
			}
			o.Archives = append(o.Archives, a)
		}
		return s.mergeTo(ctx, inputs[0], h, out, opt.Output, opt.Verify, o)
	})
}

// mergeTo writes a library with its code in a transaction.
func (s *Session) mergeTo(ctx context.Context, input *files.Input, h *kpack.Host, out *files.Outputs, output string, verify bool, o kpack.MergeOptions) error {
	layout, release, err := kpack.Merge(ctx, h, o)
	defer release()
	if err != nil {
		return in(input, err)
	}
	return s.writeLinked(input, out, output, layout, verify)
}

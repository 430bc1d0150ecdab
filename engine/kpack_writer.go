package engine

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// KpackWriter splits several libraries into archives that they share, in the outputs of a transaction.
type KpackWriter struct {
	s    *Session
	out  *files.Outputs
	opt  KpackSplitOptions
	dir  string // of the archives in out
	have func(name string) (*files.Input, error)

	archs    []string
	archives map[string]*sharedArchive
}

// sharedArchive is an archive that is written.
type sharedArchive struct {
	writer *kpack.Writer
	output *files.Output
	old    *files.Input
	stored map[[2]string]kpack.Entry // of old, by key and target
}

// NewKpackWriter returns a KpackWriter for the Dir, Group and SplitSettings of opt. dir is the name of Dir in
// out. have returns an archive that is there before, by its name in Dir, or nil for none: its entries are
// kept. The KpackWriter closes it.
func (s *Session) NewKpackWriter(out *files.Outputs, dir string, opt KpackSplitOptions, have func(name string) (*files.Input, error)) (*KpackWriter, error) {
	// unguarded: it reads no file
	if err := checkGroup(opt.Group); err != nil {
		return nil, err
	}
	return &KpackWriter{s: s, out: out, opt: opt, dir: dir, have: have, archives: make(map[string]*sharedArchive)}, nil
}

// KpackName returns the file name of the archive for a target ID.
func KpackName(group, arch string) string { return group + "_" + arch + kpack.Extension }

// Split adds the code of a library to the archives, and writes the library without it to host, which is
// Output for the report. The library can lose all of its code.
func (w *KpackWriter) Split(ctx context.Context, input *files.Input, name, search, output, host string) (report KpackSplitReport, err error) {
	defer guard.Into(&err)()
	opt := w.opt
	opt.Output = output
	o := kpack.SplitOptions{Marker: kpack.Marker{Name: name, SearchPaths: []string{search}}, MayDropAll: true}
	err = w.s.splitCode(ctx, input, opt, o, &report, func(split *kpack.Split) error {
		if len(split.Archives) == 0 {
			report.Warnings = append(report.Warnings, report.Input+": loses all of its code, because none of it is for the targets to keep")
		}
		for _, a := range split.Archives {
			if err := w.add(a); err != nil {
				return err
			}
		}
		return w.s.write(ctx, func(out *files.Outputs) error { return w.s.writeLinked(input, out, host, split.Host, opt.Verify) })
	})
	return report, err
}

// add adds the entries of a library for a target.
func (w *KpackWriter) add(a *kpack.Archive) error {
	arch := a.Archs[0]
	shared := w.archives[arch]
	if shared == nil {
		var err error
		if shared, err = w.create(a); err != nil {
			return err
		}
	}
	if shared.old == nil {
		return shared.writer.Add(a)
	}
	added := *a
	added.Entries = nil
	for _, e := range a.Entries {
		old, ok := shared.stored[[2]string{e.Key, e.Arch}]
		switch {
		case !ok:
			added.Entries = append(added.Entries, e)
		case !bytes.Equal(old.Stored.Mapped(guard.Inside), e.Stored.Mapped(guard.Inside)):
			return fmt.Errorf("%s has other code for %s; remove the archive, or use another group", shared.old.Name(), e.Key)
		}
	}
	return shared.writer.Add(&added)
}

// create begins the archive of a target, with the entries that are there before.
func (w *KpackWriter) create(a *kpack.Archive) (*sharedArchive, error) {
	arch := a.Archs[0]
	shared := &sharedArchive{stored: make(map[[2]string]kpack.Entry)}
	head := a.Empty()
	var old *kpack.Archive
	var err error
	if shared.old, err = w.have(KpackName(w.opt.Group, arch)); err != nil {
		return nil, err
	}
	w.archs, w.archives[arch] = append(w.archs, arch), shared
	if shared.old != nil {
		if old, err = kpack.Parse(shared.old.All()); err != nil {
			return nil, in(shared.old, err)
		}
		if old.Group != w.opt.Group || len(old.Archs) != 1 || old.Archs[0] != arch {
			return nil, in(shared.old, fmt.Errorf("found an archive of group %s for %s; expected %s for %s, or choose another group", old.Group, strings.Join(old.Archs, ", "), w.opt.Group, arch))
		}
		if old.Scheme != a.Scheme {
			return nil, in(shared.old, fmt.Errorf("found an archive with compression scheme %s; split with the same scheme to add code to it", old.Scheme))
		}
		head = old.Empty()
	}
	if err := w.out.MakeDir(w.dir); err != nil {
		return nil, err
	}
	if shared.output, err = w.out.Create(w.dir + "/" + KpackName(w.opt.Group, arch)); err != nil {
		return nil, err
	}
	if shared.writer, err = kpack.NewWriter(shared.output, *head); err != nil || old == nil {
		return shared, err
	}
	for _, e := range old.Entries {
		shared.stored[[2]string{e.Key, e.Arch}] = e
	}
	return shared, shared.writer.Add(old)
}

// Finish completes the archives and describes them.
func (w *KpackWriter) Finish() ([]KpackArchiveFile, error) {
	list := []KpackArchiveFile{}
	for _, arch := range w.archs {
		a := w.archives[arch]
		entries, err := a.writer.Close()
		if err == nil {
			err = a.output.Close()
		}
		if err != nil {
			return nil, err
		}
		list = append(list, KpackArchiveFile{File: kpackFile(w.opt.Dir, w.opt.Group, arch), Arch: arch, Entries: entries, Size: a.output.Size()})
	}
	return list, nil
}

// Close closes the archives that were there before.
func (w *KpackWriter) Close() {
	for _, a := range w.archives {
		if a.old != nil {
			a.old.Close()
		}
	}
}

package installation

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/installed/wheel"
)

// WheelFile is a wheel that was written.
type WheelFile struct {
	File    string `json:"file"`
	Project string `json:"project"`
	// Archs are the target IDs of the device code in the wheel.
	Archs  []string `json:"archs"`
	Extras []string `json:"extras"` // of the host wheel that install the wheel
	Size   int64    `json:"size"`
}

// wheels is the work of a call that writes wheels.
type wheels struct {
	s   *engine.Session
	out *files.Outputs
	dir string // of the new wheels
	// temp has the files of a directory for members and parts of new wheels, which is then
	// deleted. Members are below the name of their wheel, so that errors have it.
	temp    *engine.Session
	tempDir string
	// modified is the time of new members; zero for that of METADATA.
	modified time.Time

	mu     sync.Mutex
	opened []*files.Input
}

// writeWheels calls fn to write wheels to a directory.
func writeWheels(ctx context.Context, s *engine.Session, dir string, modified time.Time, fn func(w *wheels) error) error {
	return s.Files().Write(ctx, func(out *files.Outputs) error {
		if err := out.MakeDir(dir); err != nil {
			return err
		}
		scratch, err := s.Files().NewTree(dir + "/.parts")
		if err != nil {
			return err
		}
		defer scratch.Abort()
		temp := engine.New(engine.Config{Dir: scratch.Dir(), Budget: s.Budget(), Meter: s.Meter()})
		w := &wheels{s: s, out: out, dir: strings.TrimRight(dir, "/"), temp: temp, tempDir: scratch.Dir(), modified: modified}
		defer func() {
			for _, f := range w.opened {
				f.Close()
			}
		}()
		return fn(w)
	})
}

// wheelInput is a wheel that was opened.
type wheelInput struct {
	*wheel.Wheel
	file *files.Input
	base string // file name
}

func (in *wheelInput) named(err error) error { return files.NameError(in.file.Name(), err) }

// open opens a wheel.
func (w *wheels) open(name string) (*wheelInput, error) {
	file, err := w.s.Files().Open(name)
	if err != nil {
		return nil, err
	}
	w.opened = append(w.opened, file)
	in := &wheelInput{file: file, base: path.Base(filepath.ToSlash(name))}
	in.Wheel, err = wheel.Read(in.base, file.All())
	return in, in.named(err)
}

// unpack compares all members with RECORD, and writes some of them to temporary files: place
// returns the name of the file, or "" for none.
func (w *wheels) unpack(ctx context.Context, in *wheelInput, place func(m *wheel.Member) string) error {
	if missing := in.Unlisted(); len(missing) > 0 {
		return in.named(fmt.Errorf("%s/RECORD does not list %q; rebuild the wheel", in.DistInfo, missing[0].Name))
	}
	for _, m := range in.Members {
		w.s.Meter().Expect(m.Size)
	}
	return w.s.Budget().Each(ctx, len(in.Members), func(ctx context.Context, i int) error {
		m := in.Members[i]
		defer w.s.Meter().Add(m.Size)
		name := place(m)
		if name == "" {
			return in.named(in.Check(m, nil))
		}
		return w.makeFile(ctx, name, func(f *files.Output) error { return in.named(in.Check(m, f)) })
	})
}

// unpackELF is unpack for the members that are ELF files. It returns their names.
func (w *wheels) unpackELF(ctx context.Context, in *wheelInput) (names []string, err error) {
	for _, m := range in.Members {
		if m.Begins("\x7fELF") {
			names = append(names, m.Name)
		}
	}
	return names, w.unpack(ctx, in, func(m *wheel.Member) string {
		if slices.Contains(names, m.Name) {
			return w.place(in, m.Name)
		}
		return ""
	})
}

// schemes returns the prefixes of the installation schemes of some members, in order.
func (in *wheelInput) schemes(of func(m *wheel.Member) bool) (prefixes []string) {
	for _, m := range in.Members {
		if prefix, _ := in.Scheme(m.Name); of(m) && !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// makeFile writes a temporary file.
func (w *wheels) makeFile(ctx context.Context, name string, write func(f *files.Output) error) error {
	if err := w.makeDirOf(name); err != nil {
		return err
	}
	return w.temp.Files().WriteFile(ctx, name, write)
}

// makeDirOf creates the directory of a temporary file. It remains if the file is not written, because
// other files can be in it.
func (w *wheels) makeDirOf(name string) error {
	return os.MkdirAll(filepath.Join(w.tempDir, path.Dir(name)), 0o777)
}

// read opens a temporary file until the end of the call.
func (w *wheels) read(name string) (*files.Input, error) {
	input, err := w.temp.Files().OpenRegular(name)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened = append(w.opened, input)
	return input, nil
}

// place returns the temporary file of a member.
func (w *wheels) place(in *wheelInput, name string) string {
	prefix, rel := in.Scheme(name)
	return in.tree(prefix) + "/" + rel
}

// tree returns the temporary directory of the members of an installation scheme.
func (in *wheelInput) tree(prefix string) string {
	if prefix == "" {
		return in.base
	}
	return in.base + ":" + path.Base(prefix)
}

// forget deletes a temporary file.
func (w *wheels) forget(name string) error { return os.Remove(filepath.Join(w.tempDir, name)) }

// pack returns the content of a temporary file for a wheel, compressed if the member that it
// replaces is.
func (w *wheels) pack(ctx context.Context, m *wheel.Member, name string) (p wheel.Packed, err error) {
	input, err := w.read(name)
	if err != nil {
		return p, err
	}
	if _, stored := m.Stored(); stored {
		return wheel.Pack(input.All(), nil)
	}
	packed := "packed/" + name
	if err := w.makeFile(ctx, packed, func(f *files.Output) error {
		p, err = wheel.Pack(input.All(), f)
		return err
	}); err != nil {
		return p, err
	}
	if input, err = w.read(packed); err != nil {
		return p, err
	}
	p.Stored = input.All()
	return p, nil
}

// packAll packs temporary files, by the names of the members that they replace.
func (w *wheels) packAll(ctx context.Context, in *wheelInput, names map[string]string) (map[string]wheel.Packed, error) {
	packed := make([]wheel.Packed, len(in.Members))
	err := w.s.Budget().Each(ctx, len(in.Members), func(ctx context.Context, i int) (err error) {
		if name := names[in.Members[i].Name]; name != "" {
			packed[i], err = w.pack(ctx, in.Members[i], name)
		}
		return err
	})
	all := make(map[string]wheel.Packed)
	for i, m := range in.Members {
		if names[m.Name] != "" {
			all[m.Name] = packed[i]
		}
	}
	return all, err
}

// time returns the time of new members of a wheel.
func (w *wheels) time(in *wheelInput) time.Time {
	if !w.modified.IsZero() {
		return w.modified
	}
	return in.Member(in.DistInfo + "/METADATA").Modified()
}

// create writes a wheel and returns its path and size.
func (w *wheels) create(name wheel.Name, write func(to *wheel.Writer) error) (file string, size int64, err error) {
	file = w.dir + "/" + name.String()
	size, err = w.out.WriteFile(file, func(out *files.Output) error { return files.NameError(file, write(wheel.NewWriter(out))) })
	return file, size, err
}

// wheelChange is what a new wheel has different from an old one, in addition to METADATA.
type wheelChange struct {
	replaced map[string]string            // temporary files by the members that they replace
	drop     func(m *wheel.Member) bool   // nil for none
	add      func(to *wheel.Writer) error // nil for nothing
}

// change writes a wheel with the name of in and its changed METADATA, and adds the reasons to sign it
// again to warnings.
func (w *wheels) change(ctx context.Context, in *wheelInput, c wheelChange, warnings *[]string) (WheelFile, error) {
	file := WheelFile{Project: wheel.Normalize(in.Metadata.Get("Name")), Archs: []string{}, Extras: []string{}}
	packed, err := w.packAll(ctx, in, c.replaced)
	if err != nil {
		return file, err
	}
	*warnings = append(*warnings, in.signed()...)
	if packed[in.DistInfo+"/METADATA"], err = wheel.PackBytes(in.Metadata.Bytes()); err != nil {
		return file, err
	}
	file.File, file.Size, err = w.create(in.Name, func(to *wheel.Writer) error {
		for _, m := range in.Members {
			var err error
			if p, replaced := packed[m.Name]; in.IsRecord(m.Name) || c.drop != nil && c.drop(m) {
				continue
			} else if replaced {
				err = to.Replace(m, p)
			} else {
				err = to.Copy(in.Wheel, m, m.Name)
			}
			if err != nil {
				return err
			}
		}
		if c.add != nil {
			if err := c.add(to); err != nil {
				return err
			}
		}
		return to.Close(in.DistInfo, w.time(in))
	})
	return file, err
}

// signed reports the signatures that new wheels do not have.
func (in *wheelInput) signed() (warnings []string) {
	for _, m := range in.Members {
		if in.IsRecord(m.Name) && !strings.HasSuffix(m.Name, "/RECORD") {
			warnings = append(warnings, fmt.Sprintf("%s: %s is dropped, because RECORD changes; sign the new wheels", in.file.Name(), m.Name))
		}
	}
	return warnings
}

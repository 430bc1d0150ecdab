package coverage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/installed/packages"
	"github.com/rules-offload/rules_offload/installed/wheel"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// file is a file of a package or of a directory.
type file struct {
	code
	name string // of a file of a package, that of the package and the path in it: a.whl!lib/a.so
	in   string // the package or the input
	path string // in the package, or the name with slashes
	same string // the path of the file that a link leads to, or ""
	head []byte // the first bytes
	size int64
	sum  [sha256.Size]byte
	text []byte // of RECORD
	// misnamed is the fault of the name of a member of a wheel, and headers that of WHEEL or METADATA.
	misnamed, headers error
}

// packed are the files of the packages of a call. They are examined while they are read: nothing is
// unpacked to disk, and at most one file is in memory.
type packed struct {
	files []*file
	named map[string]*file   // with the files that links lead to
	paths map[string][]*file // by path, in the order of packages
	links map[string]string  // targets of symbolic links by path, relative to the root

	memory []*budget.Reservation // for files
	spare  int64                 // bytes of memory that no file uses yet
}

// A file of a package takes fileMemory bytes, and its names several times their length. Memory for
// files is reserved in steps of memoryStep bytes.
const (
	fileMemory = 512
	memoryStep = 1 << 20
)

// keep adds a file to those of the packages.
func (c *checker) keep(f *file) error {
	p := &c.packed
	need := fileMemory + 4*int64(len(f.name)+len(f.same))
	if p.spare < need {
		memory, err := c.budget.Reserve(c.ctx, memoryStep)
		if err != nil {
			return fmt.Errorf("found more than %d files: %w", len(p.files), err)
		}
		p.memory, p.spare = append(p.memory, memory), p.spare+memoryStep
	}
	p.spare -= need
	p.files = append(p.files, f)
	p.named[f.name] = f
	p.paths[f.path] = append(p.paths[f.path], f)
	return nil
}

// packageExtensions are the extensions of files that are read as packages in directories.
var packageExtensions = []string{".whl", ".deb", ".rpm"}

func isPackageName(name string) bool { return slices.Contains(packageExtensions, path.Ext(name)) }

// readPackage reads a package if the input is one, and reports whether it is.
func (c *checker) readPackage(name string) (bool, error) {
	input, err := c.root.Open(name)
	if err != nil {
		return false, err
	}
	defer input.Close()
	format := packages.None
	err = guard.Contain(func() error {
		format = packages.Identify(c.ctx, name, input.All(), c.budget)
		return nil
	})
	if err != nil || format == packages.None {
		return false, err
	}
	return true, c.walk(name, format, input.All(), true)
}

// walk examines the files of a package. Packages in it are packages of their own, unless it is one of
// those itself.
func (c *checker) walk(name string, format packages.Format, body content.Content, outer bool) error {
	err := guard.Contain(func() error {
		return packages.Walk(c.ctx, format, body, packages.Options{Budget: c.budget, XZ: c.xz}, func(m *packages.Member) error {
			if outer && isPackageName(m.Name) {
				inner, free, err := m.Load(c.ctx)
				if err != nil {
					return err
				}
				defer free()
				if f := packages.Identify(c.ctx, m.Name, inner, c.budget); f != packages.None {
					return c.walk(name+"!"+m.Name, f, inner, false)
				}
			}
			return c.member(name, m)
		})
	})
	if _, placed := errors.AsType[*images.PlaceError](err); err != nil && !placed && c.ctx.Err() == nil {
		err = &images.PlaceError{Place: name, Err: err}
	}
	return err
}

// member examines a file of a package.
func (c *checker) member(pkg string, m *packages.Member) error {
	s := &c.packed
	f := &file{in: pkg, path: installed(m.Name), name: pkg + "!" + m.Name}
	if c.deep && isWheel(pkg) {
		f.misnamed = wheel.CheckName(m.Original)
	}
	switch {
	case m.Link != "":
		f.same = strings.TrimPrefix(path.Join("/", path.Dir(f.path), m.Link), "/")
		if path.IsAbs(m.Link) {
			f.same = strings.TrimPrefix(path.Clean(m.Link), "/")
		}
		s.links[f.path] = f.same
	case m.Same != "":
		f.same = m.Same
	default:
		if err := c.content(f, m); err != nil {
			return err
		}
	}
	return c.keep(f)
}

// installed returns the path at which the file of a wheel is installed, relative to the directory of
// packages: NAME.data/platlib/a becomes a. Other paths do not change.
func installed(name string) string {
	dir, rest, _ := strings.Cut(name, "/")
	if !strings.HasSuffix(dir, ".data") {
		return name
	}
	for _, scheme := range []string{"purelib/", "platlib/"} {
		if inner, ok := strings.CutPrefix(rest, scheme); ok {
			return inner
		}
	}
	return name
}

// content examines the bytes of a file of a package.
func (c *checker) content(f *file, m *packages.Member) error {
	head, err := m.Head()
	if err != nil {
		return err
	}
	f.head, f.size = bytes.Clone(head[:min(len(head), dataHead)]), m.Size
	record, headers := c.deep && f.isRecord(), c.deep && f.isHeaders()
	if !mayHaveCode(m.Name, head) && !record && !headers {
		if c.deep {
			h := sha256.New()
			if _, err := m.WriteTo(h); err != nil {
				return err
			}
			h.Sum(f.sum[:0])
		}
		return nil
	}
	body, free, err := m.Load(c.ctx)
	if err != nil {
		return &images.PlaceError{Place: f.name, Err: err}
	}
	defer free()
	if c.deep {
		f.sum = sha256.Sum256(body.Mapped(guard.Inside))
	}
	switch {
	case record:
		f.text = bytes.Clone(body.Mapped(guard.Inside))
		return nil
	case headers:
		f.headers = checkHeaders(f, body.Mapped(guard.Inside))
		return nil
	}
	return c.examine(f, files.FromMemory(f.name, body.Mapped(guard.Inside)))
}

// dataHead is the number of bytes that are kept of a file.
const dataHead = 16

// mayHaveCode reports whether a file must be examined, by its name and its first bytes.
func mayHaveCode(name string, head []byte) bool {
	return kpack.Is(head) || path.Ext(name) == kpack.Extension || bytes.HasPrefix(head, []byte("MZ")) || object.Identify(head) != object.Unknown
}

// examine reads what a file has for GPUs. Faults of the file are in f; errors are those of the machine.
func (c *checker) examine(f *file, input images.Input) (err error) {
	if name := input.Name(); kpack.Is(input.All().Mapped(guard.Inside)) || filepath.Ext(name) == kpack.Extension {
		f.archive = &archive{name: name}
		if err := f.archive.parse(input.All()); err != nil {
			return err
		}
		if f.archive.fault != "" {
			return nil
		}
		err := c.readEntries(f.archive, func(*kpack.Entry) bool { return true })
		for i := range f.archive.parsed.Entries {
			f.archive.parsed.Entries[i].Stored = content.Content{}
		}
		return err
	}
	open, err := images.Read(c.ctx, input, images.Options{Budget: c.budget, OpenMember: func(path string) (images.Input, error) {
		return nil, fmt.Errorf("%s: a member of a thin archive in a package", path)
	}})
	if err != nil {
		return err
	}
	defer open.Close()
	if f.code, err = c.read(open); c.ofMachine(err) {
		return err
	}
	f.fault = err
	return nil
}

// settle finds the files that links lead to, after all packages were read.
func (s *packed) settle() {
	for _, f := range s.files {
		if f.same == "" {
			continue
		}
		if target := s.find(f.in, f.same); target != nil {
			s.named[f.name] = target
		}
	}
}

// find returns the file at a path: that of a package itself, or else of the last package that has
// one. It follows links.
func (s *packed) find(pkg, name string) *file {
	for range maxLinks {
		name = s.follow(name)
		list := s.paths[name]
		if len(list) == 0 {
			return nil
		}
		f := list[len(list)-1]
		for _, own := range list {
			if own.in == pkg {
				f = own
			}
		}
		if f.same == "" {
			return f
		}
		name = f.same
	}
	return nil
}

// maxLinks is the largest number of links that lead to a file, as in Linux.
const maxLinks = 40

// follow replaces directories of a path that are links.
func (s *packed) follow(name string) string {
	if len(s.links) == 0 {
		return name
	}
	for range maxLinks {
		changed := false
		for i := range len(name) {
			if name[i] != '/' {
				continue
			}
			if target, ok := s.links[name[:i]]; ok {
				name, changed = strings.TrimPrefix(path.Join("/", target, name[i:]), "/"), true
				break
			}
		}
		if !changed {
			break
		}
	}
	return name
}

// locate returns the file at a path relative to a library, or the name that it would have.
func (s *packed) locate(library *file, name string) (*file, string) {
	if !path.IsAbs(name) {
		// The directories of the library are followed before "..", as the runtime does.
		name = path.Join(s.follow(path.Dir(library.path)+"/"), name)
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	f := s.find(library.in, name)
	if f == nil {
		return nil, library.in + "!" + name
	}
	return f, f.name
}

// folders returns the directories of the packages with the names of their files, in order. Those of
// different packages with the same path are one.
func (s *packed) folders() []files.Folder {
	index := make(map[string]int)
	var list []files.Folder
	seen := make(map[*file]bool)
	for _, links := range []bool{false, true} {
		for _, f := range s.files {
			target := s.named[f.name]
			if (f.same != "") != links || target.same != "" {
				continue
			}
			dir := path.Dir(s.follow(f.path))
			at, ok := index[dir]
			if !ok {
				at = len(list)
				index[dir] = at
				list = append(list, files.Folder{Name: strings.TrimSuffix(f.in+"!"+dir, "!.")})
			}
			if seen[target] {
				list[at].Links = append(list[at].Links, f.name)
			} else {
				seen[target] = true
				list[at].Files = append(list[at].Files, f.name)
			}
		}
	}
	for i := range list {
		slices.Sort(list[i].Files)
		slices.Sort(list[i].Links)
	}
	slices.SortStableFunc(list, func(a, b files.Folder) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// readHead returns the first bytes of a file, and its size.
func (c *checker) readHead(name string) (head []byte, size int64, err error) {
	if f := c.packed.named[name]; f != nil {
		return f.head, f.size, nil
	}
	input, err := c.root.OpenRegular(name)
	if err != nil {
		return nil, 0, err
	}
	defer input.Close()
	head = make([]byte, min(input.Size(), dataHead))
	if _, err := input.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return head, input.Size(), nil
}

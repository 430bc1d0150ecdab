package engine

import (
	"bytes"
	"context"
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
	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/archives"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/object"
)

// kpackExtension is the extension of kpack archives.
const kpackExtension = ".kpack"

// examined is what a file has for GPUs. Nothing in it refers to the bytes of the file.
type examined struct {
	bundles []coverage.Bundle
	// marker states where device code is if it is in other files; otherwise it is nil.
	marker *splitMarker
	// archive is set for kpack archives, also for those that cannot be read.
	archive *archiveFile
	// head are the first bytes of the file, and size is its size.
	head []byte
	size int64
	// fault is the fault of device code that cannot be read.
	fault error
	study *study // see CheckPackage
}

// shippedFile is a file of a package.
type shippedFile struct {
	examined
	name string // of the package and in it: a.whl!lib/a.so
	in   string // the package
	path string // in the package
	same string // the path of the file that a link leads to, or ""
	sum  [sha256.Size]byte
	text []byte // of RECORD
}

// shipped are the files of the packages of a call. They are examined while they are read: nothing is
// unpacked to disk, and at most one file is in memory.
type shipped struct {
	files []*shippedFile
	named map[string]*shippedFile
	paths map[string][]*shippedFile // by path, in the order of packages
	links map[string]string         // targets of symbolic links by path, relative to the root
	hash  bool                      // whether to compute sums

	memory []*budget.Reservation // for files
	spare  int64                 // bytes of memory that no file uses yet
}

// A file of a package takes shippedMemory bytes, and its names several times their length. Memory
// for files is reserved in steps of memoryStep bytes.
const (
	shippedMemory = 512
	memoryStep    = 1 << 20
)

// keep adds a file to those of the packages.
func (c *coverer) keep(ctx context.Context, f *shippedFile) error {
	s := &c.shipped
	need := shippedMemory + 4*int64(len(f.name)+len(f.same))
	if s.spare < need {
		memory, err := c.session.budget.Reserve(ctx, memoryStep)
		if err != nil {
			return fmt.Errorf("found more than %d files: %w", len(s.files), err)
		}
		s.memory, s.spare = append(s.memory, memory), s.spare+memoryStep
	}
	s.spare -= need
	s.files = append(s.files, f)
	s.named[f.name] = f
	s.paths[f.path] = append(s.paths[f.path], f)
	return nil
}

// packageExtensions are the extensions of files that are read as packages in directories.
var packageExtensions = []string{".whl", ".deb", ".rpm"}

func isPackageName(name string) bool { return slices.Contains(packageExtensions, path.Ext(name)) }

// openPackage opens an input if it is a package, or returns nil.
func (c *coverer) openPackage(ctx context.Context, name string) (*files.Input, archives.Format, error) {
	input, err := c.session.files.Open(name)
	if err != nil {
		return nil, archives.None, err
	}
	format := archives.None
	err = guard.Contain(func() error {
		format = archives.Identify(ctx, name, input.All(), c.session.budget)
		return nil
	})
	if err != nil || format == archives.None {
		input.Close()
		return nil, archives.None, err
	}
	return input, format, nil
}

// ship reads a package if the input is one, and reports whether it is.
func (c *coverer) ship(ctx context.Context, name string) (bool, error) {
	input, format, err := c.openPackage(ctx, name)
	if err != nil || input == nil {
		return false, err
	}
	defer input.Close()
	return true, c.walk(ctx, name, format, input.All(), true)
}

// walk examines the files of a package. Packages in it are packages of their own, unless it is one of
// those itself.
func (c *coverer) walk(ctx context.Context, name string, format archives.Format, body content.Content, outer bool) error {
	err := guard.Contain(func() error {
		return archives.Walk(ctx, format, body, c.session.budget, func(m *archives.Member) error {
			if outer && isPackageName(m.Name) {
				inner, free, err := m.Load(ctx)
				if err != nil {
					return err
				}
				defer free()
				if f := archives.Identify(ctx, m.Name, inner, c.session.budget); f != archives.None {
					return c.walk(ctx, name+"!"+m.Name, f, inner, false)
				}
			}
			return c.member(ctx, name, m)
		})
	})
	if _, placed := errors.AsType[*images.PlaceError](err); err != nil && !placed && ctx.Err() == nil {
		err = &images.PlaceError{Place: name, Err: err}
	}
	return err
}

// member examines a file of a package.
func (c *coverer) member(ctx context.Context, pkg string, m *archives.Member) error {
	s := &c.shipped
	f := &shippedFile{in: pkg, path: installed(m.Name), name: pkg + "!" + m.Name}
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
		if err := c.content(ctx, f, m); err != nil {
			return err
		}
	}
	return c.keep(ctx, f)
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
func (c *coverer) content(ctx context.Context, f *shippedFile, m *archives.Member) error {
	head, err := m.Head()
	if err != nil {
		return err
	}
	f.head, f.size = bytes.Clone(head[:min(len(head), dataHead)]), m.Size
	record := c.shipped.hash && f.isRecord()
	if !mayHaveCode(m.Name, head) && !record {
		if c.shipped.hash {
			h := sha256.New()
			if _, err := m.WriteTo(h); err != nil {
				return err
			}
			h.Sum(f.sum[:0])
		}
		return nil
	}
	body, free, err := m.Load(ctx)
	if err != nil {
		return &images.PlaceError{Place: f.name, Err: err}
	}
	defer free()
	if c.shipped.hash {
		f.sum = sha256.Sum256(body.Bytes())
	}
	if record {
		f.text = bytes.Clone(body.Bytes())
		return nil
	}
	e, err := c.examine(ctx, files.FromMemory(f.name, body.Bytes()))
	e.head, e.size = f.head, f.size
	f.examined = e
	return err
}

// dataHead is the number of bytes that examined keeps of a file.
const dataHead = 16

// mayHaveCode reports whether a file must be examined, by its name and its first bytes.
func mayHaveCode(name string, head []byte) bool {
	return kpack.Is(head) || path.Ext(name) == kpackExtension || bytes.HasPrefix(head, []byte("MZ")) || object.Identify(head) != object.Unknown
}

// examine reads what a file has for GPUs. Faults of the file are in the result; errors are those of
// the machine.
func (c *coverer) examine(ctx context.Context, input images.Input) (e examined, err error) {
	if name := input.Name(); kpack.Is(input.All().Bytes()) || filepath.Ext(name) == kpackExtension {
		e.archive, err = c.examineArchive(ctx, name, input.All())
		return e, err
	}
	f, err := images.Read(ctx, input, images.Options{Budget: c.session.budget, OpenMember: func(path string) (images.Input, error) {
		return nil, fmt.Errorf("%s: a member of a thin archive in a package", path)
	}})
	if err != nil {
		return e, err
	}
	defer f.Close()
	if e, err = c.read(ctx, f); ofMachine(ctx, err) {
		return e, err
	}
	e.fault = err
	return e, nil
}

// examineArchive describes all code objects of a kpack archive.
func (c *coverer) examineArchive(ctx context.Context, name string, body content.Content) (*archiveFile, error) {
	a := newArchiveFile(name)
	err := a.parse(body)
	if err != nil || a.parsed == nil {
		return a, err
	}
	for i := range a.parsed.Entries {
		e := &a.parsed.Entries[i]
		if _, err := c.entry(ctx, a, e); err != nil {
			return nil, err
		}
		e.Stored = content.Content{}
	}
	return a, nil
}

// settle finds the files that links lead to, after all packages were read.
func (s *shipped) settle() {
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
func (s *shipped) find(pkg, name string) *shippedFile {
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
func (s *shipped) follow(name string) string {
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
func (s *shipped) locate(library *shippedFile, name string) (*shippedFile, string) {
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
func (s *shipped) folders() []files.Folder {
	index := make(map[string]int)
	var list []files.Folder
	seen := make(map[*shippedFile]bool)
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
func (c *coverer) readHead(name string) (head []byte, size int64, err error) {
	if f := c.shipped.named[name]; f != nil {
		return f.head, f.size, nil
	}
	input, err := c.session.files.OpenRegular(name)
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

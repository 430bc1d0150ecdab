package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/bitcode"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Scope says which device images are looked for.
type Scope int

const (
	// Everything is every device image, however it is stored.
	Everything Scope = iota
	// OffloadBinaries is those in offload binaries: what llvm-offload-binary
	// extracts.
	OffloadBinaries
)

// Form is how a device image is stored.
type Form string

// The forms.
const (
	FormPackage    Form = "offload binary"
	FormBundle     Form = "bundle"
	FormCompressed Form = "compressed bundle"
	FormSection    Form = "bundled object"
	FormFatbinary  Form = "CUDA fatbinary"
)

// Embedded is a device image found in a file.
type Embedded struct {
	Members []string // archive members that lead to it, the outermost first
	Section string   // of the object it is in; "" if it is not in a section
	Form    Form
	// Container is where the offload binary or the bundle starts in the file,
	// member or section that holds it.
	Container int64
	Size      int64 // bytes

	Kind offloadbinary.ImageKind // None where only decoding would tell
	// Offload is the offload kind: openmp, hip, cuda, sycl, hipv4, host or none.
	Offload string
	Triple  string
	Arch    string // processor or target ID
	ID      string // entry ID, in bundles
	// Properties are all that an offload binary says of its image.
	Properties []offloadbinary.String

	file    string        // the file it is in, as named
	content files.Content // if it is not compressed
	reader  *ccob.Reader  // if it is
	offset  int64         // in the reader's raw bytes
}

// Source returns the name of the innermost file that the image was found in: an
// archive member, or the input as it was named.
func (e *Embedded) Source() string {
	switch n := len(e.Members); {
	case n > 0:
		return e.Members[n-1]
	case e.file == "-":
		return "<stdin>"
	}
	return e.file
}

// Member returns the last part of Source.
func (e *Embedded) Member() string { return path.Base(e.Source()) }

// Get returns a property of the image by the name it has in an offload binary.
// Bundle entries have triple and arch.
func (e *Embedded) Get(key string) string {
	if e.Form != FormPackage {
		switch key {
		case "triple":
			return e.Triple
		case "arch":
			return e.Arch
		}
		return ""
	}
	img := offloadbinary.Image{Strings: e.Properties}
	return img.Get(key)
}

// Limits of what is looked at, for files made to waste time or memory.
const (
	// maxFindDepth is how deep archives and offload binaries may be nested.
	maxFindDepth = 32
	// maxFound is how many images, offload binaries, bundles and archive members
	// are looked at. Sections are as many as the file has room for.
	maxFound = 1 << 20
)

// find opens an input, finds the images in it and calls fn with them. It may
// call fn again after an error.
func (s *Session) find(ctx context.Context, name string, scope Scope, fn func(context.Context, *finder) error) error {
	input, err := s.Files.Open(name)
	if err != nil {
		return err
	}
	defer input.Close()
	return s.inflating(ctx, func(ctx context.Context, reserved int64) error {
		f := &finder{session: s, ctx: ctx, scope: scope, input: input, left: maxFound, reserved: reserved}
		f.memory.left = reserved
		defer f.close()
		return files.Contain(func() error {
			if err := f.file(input.All(), place{input: name, path: name}); err != nil {
				return err
			}
			if err := f.memory.short(reserved); err != nil {
				return err
			}
			return fn(ctx, f)
		})
	})
}

// finder looks for device images.
type finder struct {
	session *Session
	ctx     context.Context
	scope   Scope
	input   *files.Input
	opened  []*files.Input // members of thin archives
	left    int            // how many more things to look at

	reserved int64 // bytes for compressed offload binaries
	memory   inflation

	images []*Embedded
}

func (f *finder) close() {
	for _, in := range f.opened {
		in.Close()
	}
}

// place is where in the input something lies.
type place struct {
	input   string   // as the request named it
	path    string   // of the file on disk: the input, or a thin archive's member
	members []string // archive members
	section string
	depth   int
}

// name returns the place as messages have it: lib.a(member.o).
func (p place) name() string {
	name := p.input
	for _, member := range p.members {
		name += "(" + member + ")"
	}
	if p.section != "" {
		name += ": section " + p.section
	}
	return name
}

// wrap puts the place before an error.
func (p place) wrap(err error) error {
	e := &PlaceError{Place: p.name(), Err: err}
	var known interface{ LLVM() string }
	if errors.As(err, &known) {
		e.LLVM = known.LLVM()
	}
	return e
}

// PlaceError is a fault of something found in a file.
type PlaceError struct {
	Place string // the file, with archive members and the section
	Err   error
	// LLVM is what LLVM's tools say about such a fault, "" if they say
	// something that is known only to them, or nothing.
	LLVM string
}

// Error returns the place and the fault.
func (e *PlaceError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns the fault alone.
func (e *PlaceError) Unwrap() error { return e.Err }

// step counts the things looked at.
func (f *finder) step(at place) error {
	if err := context.Cause(f.ctx); err != nil {
		return err
	}
	if f.left--; f.left < 0 {
		return at.wrap(fmt.Errorf("more than %d images and archive members", maxFound))
	}
	if at.depth > maxFindDepth {
		return at.wrap(fmt.Errorf("nested more than %d deep", maxFindDepth))
	}
	return nil
}

func (f *finder) add(e *Embedded, at place) error {
	e.Members, e.Section = at.members, at.section
	e.file = at.input
	f.images = append(f.images, e)
	return f.step(at)
}

// file looks into a file or archive member.
func (f *finder) file(c files.Content, at place) error {
	if err := f.step(at); err != nil {
		return err
	}
	switch format := object.Identify(c.Bytes()); format {
	case object.OffloadBinary:
		return f.packages(c, at)
	case object.ELFRelocatable, object.ELFExecutable, object.ELFSharedObject, object.COFFObject:
		return f.object(c, at)
	case object.Archive, object.ThinArchive:
		return f.archive(c, at)
	case object.Bitcode:
		return f.bitcode(c, at)
	case object.PE:
		if f.scope == Everything {
			return f.object(c, at)
		}
	case object.OffloadBundle, object.OffloadBundleZ:
		if f.scope == Everything {
			return f.bundles(c, at)
		}
	case object.CUDAFatbinary:
		if f.scope == Everything {
			return f.fatbinaries(c, at)
		}
	}
	return nil
}

// packages looks at the offload binaries that follow each other in c.
func (f *finder) packages(c files.Content, at place) error {
	for p, err := range f.memory.parse(c) {
		if err != nil {
			return at.wrap(err)
		}
		if err := f.step(at); err != nil {
			return err
		}
		for i := range p.Images {
			if err := f.add(packaged(&p.Images[i], p.Offset), at); err != nil {
				return err
			}
		}
	}
	return nil
}

// packaged describes an image of an offload binary.
func packaged(img *offloadbinary.Image, container int64) *Embedded {
	return &Embedded{
		Form: FormPackage, Container: container, Size: img.Content.Len(),
		Kind: img.Kind, Offload: img.Offload.String(),
		Triple: img.Get("triple"), Arch: img.Get("arch"),
		Properties: img.Strings, content: img.Content,
	}
}

// unwrap returns the images of the offload binaries that an image consists of,
// and of those in these, in their order; the image itself if it is none.
func (f *finder) unwrap(e *Embedded) ([]*Embedded, error) {
	return f.nested(e, place{input: f.input.Name(), members: e.Members, section: e.Section})
}

func (f *finder) nested(e *Embedded, at place) ([]*Embedded, error) {
	if e.reader != nil || !offloadbinary.Is(e.content.Bytes()) {
		return []*Embedded{e}, nil
	}
	outer, room := f.images, e.Size+f.memory.left
	f.images = nil
	at.depth++
	err := f.packages(e.content, at)
	level := f.images
	f.images = outer
	if err == nil {
		err = f.memory.short(f.reserved)
	}
	if err != nil {
		return nil, err
	}
	var all []*Embedded
	for _, inner := range level {
		// Without this, a small file could hold very many images by pointing
		// to the same nested one again and again.
		if room -= inner.Size; room < 0 {
			return nil, at.wrap(errors.New("images in a nested offload binary overlap"))
		}
		images, err := f.nested(inner, at)
		if err != nil {
			return nil, err
		}
		all = append(all, images...)
	}
	return all, nil
}

// object looks into the sections of an object file.
func (f *finder) object(c files.Content, at place) error {
	file, err := object.Parse(c.Bytes())
	if err != nil {
		if f.scope == Everything && object.Identify(c.Bytes()).IsCOFF() {
			return nil // two zero bytes look like COFF
		}
		return at.wrap(err)
	}
	room := c.Len() // sections do not overlap
	for i := range file.Sections {
		s := &file.Sections[i]
		look := f.lookInto(file, s)
		if look == nil {
			continue
		}
		at.section = string(s.Name)
		data, err := file.Data(i)
		if err != nil {
			return at.wrap(err)
		}
		if len(data) == 0 {
			continue
		}
		if room -= int64(len(data)); room < 0 {
			return at.wrap(errors.New("sections overlap"))
		}
		if err := look(c.Slice(int64(s.Offset), int64(len(data))), at); err != nil {
			return err
		}
	}
	return nil
}

// offloadingSection is the name of the sections with offload binaries.
const offloadingSection = ".llvm.offloading"

// lookInto returns what looks into a section, nil if there is nothing to look
// for. ELF sections with offload binaries have a type; plain objcopy makes them
// without, and gives them the name alone. Those with longer names are not taken
// by name: a relocatable device link leaves its result in one.
func (f *finder) lookInto(file *object.File, s *object.Section) func(files.Content, place) error {
	name := string(s.Name)
	switch {
	case file.Format.IsELF() && s.Type == object.ShtOffloading,
		file.Format.IsCOFF() && strings.HasPrefix(name, offloadingSection):
		return f.offloading
	case file.Format.IsELF() && s.Type == object.ShtProgbits && name == offloadingSection:
		return func(c files.Content, at place) error {
			if !offloadbinary.Is(c.Bytes()) {
				return nil
			}
			return f.packages(c, at)
		}
	case f.scope != Everything || s.Type == object.ShtNobits && file.Format.IsELF():
		return nil
	case strings.HasPrefix(name, bundle.SectionPrefix):
		return func(c files.Content, at place) error {
			e := entry(strings.TrimPrefix(name, bundle.SectionPrefix))
			e.Form, e.Size, e.content = FormSection, c.Len(), c
			e.Kind = offloadbinary.KindOfData(c.Bytes())
			return f.add(e, at)
		}
	}
	named := strings.HasPrefix(name, ".hip_fat") || strings.HasPrefix(name, ".nv_fatbin")
	return func(c files.Content, at place) error {
		switch data := c.Bytes(); {
		case bundle.Is(data) || ccob.Is(data) || named && !startsFatbinary(data):
			return f.bundles(c, at)
		case named:
			return f.fatbinaries(c, at)
		}
		return nil
	}
}

// offloading looks into a section for offload binaries. The OpenMP registration
// of older releases keeps bare images there.
func (f *finder) offloading(c files.Content, at place) error {
	if f.scope == Everything && !offloadbinary.Is(c.Bytes()) {
		return f.bare(c, at)
	}
	return f.packages(c, at)
}

// bare adds an image of which nothing is known but its content.
func (f *finder) bare(c files.Content, at place) error {
	return f.add(&Embedded{
		Form: FormSection, Size: c.Len(), content: c, Offload: "none",
		Kind: offloadbinary.KindOfData(c.Bytes()),
	}, at)
}

// archive looks into the members of an archive.
func (f *finder) archive(c files.Content, at place) error {
	archive, err := ar.Parse(c.Bytes())
	if err != nil {
		return at.wrap(err)
	}
	for member, err := range archive.Members() {
		if err != nil {
			return at.wrap(err)
		}
		inner := place{input: at.input, path: at.path, members: append(at.members[:len(at.members):len(at.members)], member.Name), depth: at.depth + 1}
		if !member.Thin {
			if err := f.file(c.Slice(member.DataOffset, int64(len(member.Data))), inner); err != nil {
				return err
			}
			continue
		}
		if err := f.step(inner); err != nil {
			return err
		}
		name := ar.MemberPath(at.path, member.Name)
		input, err := f.session.Files.OpenRegular(name)
		if err != nil {
			return inner.wrap(err)
		}
		before := len(f.images)
		inner.path = name
		err = f.file(input.All(), inner)
		if len(f.images) == before {
			input.Close()
		} else {
			f.opened = append(f.opened, input)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bitcode looks for the offload binaries that clang embedded.
func (f *finder) bitcode(c files.Content, at place) error {
	objects, err := bitcode.EmbeddedObjects(c.Bytes())
	if err != nil {
		return &PlaceError{Place: at.name(), Err: err, LLVM: "Failed to create module"}
	}
	for _, data := range objects {
		if err := f.offloading(files.Memory(data), at); err != nil {
			return err
		}
	}
	return nil
}

// bundles looks at the bundles, plain and compressed, that follow each other.
func (f *finder) bundles(c files.Content, at place) error {
	data := c.Bytes()
	plainEnd := func(data []byte) (int64, error) {
		b, err := bundle.Parse(data)
		if err != nil {
			return 0, err
		}
		return b.End, nil
	}
	for extent, err := range ccob.Walk(data, plainEnd) {
		if err != nil {
			return at.wrap(err)
		}
		if err := f.step(at); err != nil {
			return err
		}
		if extent.Header != nil {
			err = f.compressed(c.Slice(extent.Offset, extent.End-extent.Offset), extent.Offset, at)
		} else {
			err = f.plain(c, extent.Offset, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain adds the entries of the plain bundle at start.
func (f *finder) plain(c files.Content, start int64, at place) error {
	b, err := bundle.ParseAt(c.Bytes(), start)
	if err != nil {
		return at.wrap(err)
	}
	for _, stored := range b.Entries {
		e := entry(stored.ID)
		e.Form, e.Container, e.Size = FormBundle, start, stored.Size
		e.content = c.Slice(stored.Offset, stored.Size)
		e.Kind = offloadbinary.KindOfData(e.content.Bytes())
		if err := f.add(e, at); err != nil {
			return err
		}
	}
	return nil
}

// compressed adds the entries of a compressed bundle.
func (f *finder) compressed(c files.Content, start int64, at place) error {
	reader, err := ccob.Open(c.Bytes(), ccob.Options{Budget: f.session.Budget})
	if err != nil {
		return at.wrap(err)
	}
	b, err := readHeader(f.ctx, reader)
	if err == nil && b == nil {
		err = errors.New("uncompressed, it is no bundle")
	}
	if err != nil {
		return at.wrap(fmt.Errorf("compressed bundle at byte 0x%x: %w", start, err))
	}
	for _, stored := range b.Entries {
		e := entry(stored.ID)
		e.Form, e.Container, e.Size = FormCompressed, start, stored.Size
		e.reader, e.offset = reader, stored.Offset
		if err := f.add(e, at); err != nil {
			return err
		}
	}
	return nil
}

// entry describes a bundle entry by its ID.
func entry(id string) *Embedded {
	e := &Embedded{ID: id, Offload: "none"}
	if parsed, err := target.Parse(id); err == nil {
		e.Offload = string(parsed.Kind)
		e.Triple = strings.TrimRight(parsed.Triple.String(), "-")
		e.Arch = parsed.TargetID
	}
	return e
}

// startsFatbinary reports whether data begins like NVIDIA's fatbinary.
func startsFatbinary(data []byte) bool {
	return object.Identify(data) == object.CUDAFatbinary
}

// fatbinaries adds the CUDA fatbinaries that follow each other, padded with
// zeros: magic, u16 version, u16 size of this header, u64 size of the rest.
func (f *finder) fatbinaries(c files.Content, at place) error {
	const header = 16
	data := c.Bytes()
	for pos := int64(0); ; {
		rest := data[pos:]
		for len(rest) > 0 && rest[0] == 0 {
			rest = rest[1:]
		}
		pos = c.Len() - int64(len(rest))
		if len(rest) == 0 {
			return nil
		}
		if !startsFatbinary(rest) || len(rest) < header {
			return at.wrap(fmt.Errorf("no CUDA fatbinary at byte 0x%x: begins with % x", pos, rest[:min(4, len(rest))]))
		}
		head, body := uint64(binary.LittleEndian.Uint16(rest[6:])), binary.LittleEndian.Uint64(rest[8:])
		if head < header || head > uint64(len(rest)) || body > uint64(len(rest))-head {
			return at.wrap(fmt.Errorf("CUDA fatbinary at byte 0x%x: header 0x%x + size 0x%x passes the end at 0x%x", pos, head, body, len(data)))
		}
		size := int64(head + body)
		e := &Embedded{Form: FormFatbinary, Container: pos, Size: size, Kind: offloadbinary.Fatbinary, Offload: "cuda", content: c.Slice(pos, size)}
		if err := f.add(e, at); err != nil {
			return err
		}
		pos += size
	}
}

// SameContent reports whether two images have the same bytes, as far as this
// can be told without decoding.
func SameContent(a, b *Embedded) bool {
	if a.reader != nil || b.reader != nil {
		return a.reader == b.reader && a.offset == b.offset && a.Size == b.Size
	}
	return bytes.Equal(a.content.Bytes(), b.content.Bytes())
}

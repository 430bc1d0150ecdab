package images

import (
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Form is the form in which a device image is stored. Reports print the values.
type Form string

// The forms.
const (
	FormOffloadBinary Form = "offload binary"
	FormBundle        Form = "bundle"
	FormText          Form = "text bundle"
	FormCompressed    Form = "compressed bundle"
	FormSection       Form = "bundled object" // a separate section
	FormFatbinary     Form = "CUDA fatbinary"
	FormFile          Form = "code object" // the file itself
	FormKpack         Form = "kpack archive"
)

// Place is where a device image is stored.
type Place struct {
	File    string   // the input, as the request named it
	Members []string // the archive members that contain the image, outermost first
	Section string   // of the object that contains the image; "" outside sections
	Form    Form
	// Container is the offset of the offload binary or bundle in the file, member
	// or section that contains it, in bytes. It is 0 for other forms.
	Container int64
	// Bundle is the number of the bundle among those of the file or member, from
	// 1; the sections of a bundled object count as one. It is 0 outside bundles.
	Bundle int
	// Index is the index of the image in its bundle or offload binary, from 0, in
	// the order of the file.
	Index int
	// Offset is the offset of the content in the file or member or, for compressed
	// images, in the uncompressed bytes of their container.
	Offset int64
}

// Holder returns the name of the innermost file of the place: an archive member,
// or the input as named in the request.
func (p *Place) Holder() string {
	switch n := len(p.Members); {
	case n > 0:
		return p.Members[n-1]
	case p.File == "-":
		return "<stdin>"
	}
	return p.File
}

// Member returns the last element of Holder's path.
func (p *Place) Member() string { return path.Base(p.Holder()) }

// String returns the place in the format of error messages: lib.a(member.o):
// section .llvm.offloading.
func (p *Place) String() string {
	name := p.File
	for _, member := range p.Members {
		name += "(" + member + ")"
	}
	if p.Section != "" {
		name += ": section " + p.Section
	}
	return name
}

// PlaceError reports a fault at a place in a file.
type PlaceError struct {
	Place string // the file, with archive members and the section
	Err   error
}

// Error returns the place and the fault.
func (e *PlaceError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns the fault without the place.
func (e *PlaceError) Unwrap() error { return e.Err }

// DeviceImage is a device image found in a file. Its fields remain valid after
// its File is closed; its content does not.
type DeviceImage struct {
	Place
	// Size is the size of the image, in bytes. For the host entry of a bundled
	// object, this is the size of its section, although its content is the object.
	Size int64

	// Offload is the offload kind: openmp, hip, cuda, sycl, hipv4, host or none.
	Offload string
	// Triple is the target triple; "" if nothing states it.
	Triple string
	// Arch is the processor or target ID; "" if nothing states it.
	Arch string
	// Format is the format of the content. It is None if it is unknown before
	// decoding, see Compressed, and for entries of binary bundles in Scope
	// Bundles.
	Format offloadbinary.ImageKind

	// ID is the entry ID as stored in a bundle; "" outside bundles.
	ID string
	// Target is the parsed ID, if BadID is nil.
	Target target.ID
	// BadID is the reason why ID is not a valid entry ID.
	BadID error

	// Properties are all properties of the image in its offload binary.
	Properties offloadbinary.Properties

	binary  bool   // an entry of a binary bundle
	endID   string // the ID in the END line of a text bundle
	content origin
	nested  []*DeviceImage
	fault   error // of the nested images
}

// origin is where the bytes of an image are stored.
type origin struct {
	plain  content.Content // if they are in a file or in memory
	reader *ccob.Reader    // if they are in a compressed bundle
	search *decoded        // of the reader, if the search decoded the bundle
	offset int64           // in the compressed bundle
	size   int64           // in the compressed bundle
	// host reports whether the content is the host object of a bundled object: the
	// object without the sections of its entries.
	host bool
}

// Compressed reports whether the image must be decoded before it can be read.
func (e *DeviceImage) Compressed() bool { return e.content.reader != nil }

// HostObject reports whether the image is the host object of a bundled object:
// its content is that object without the sections of its entries.
func (e *DeviceImage) HostObject() bool { return e.content.host }

// Get returns a property of the image by its name in an offload binary. Other
// images have the properties triple and arch.
func (e *DeviceImage) Get(key string) string {
	if e.Form != FormOffloadBinary {
		switch key {
		case "triple":
			return e.Triple
		case "arch":
			return e.Arch
		}
		return ""
	}
	return e.Properties.Get(key)
}

// Unwrap returns the images of the offload binaries that the image consists of,
// and of those nested in these, in their order; the image itself if it is not an
// offload binary. The error is the fault of the nested images.
func (e *DeviceImage) Unwrap() (_ []*DeviceImage, err error) {
	defer guard.Into(&err)()
	if e.fault != nil {
		return nil, e.fault
	}
	if e.nested == nil {
		return []*DeviceImage{e}, nil
	}
	var all []*DeviceImage
	for _, inner := range e.nested {
		images, err := inner.Unwrap()
		if err != nil {
			return nil, err
		}
		all = append(all, images...)
	}
	return all, nil
}

// describe sets the fields of e that depend on the entry ID.
func (e *DeviceImage) describe(id string) { e.take(describe(id)) }

// take sets the fields of e from the description of its entry ID.
func (e *DeviceImage) take(d *description) {
	e.ID = d.id
	e.Target, e.BadID, e.Offload, e.Triple, e.Arch = d.target, d.bad, d.offload, d.triple, d.arch
}

// description is the information in an entry ID.
type description struct {
	id                    string
	target                target.ID
	bad                   error
	offload, triple, arch string
}

func describe(id string) *description {
	d := &description{id: id, offload: "none"}
	if d.target, d.bad = target.Parse(id); d.bad == nil {
		d.offload = string(d.target.Kind)
		d.triple = strings.TrimRight(d.target.Triple.String(), "-")
		d.arch = d.target.TargetID
	}
	return d
}

// descriptions keeps the descriptions of entry IDs, because the members of an
// archive have the same few. Parsing an ID takes longer than all other work for an
// entry.
type descriptions struct {
	known sync.Map // string to *description
	count atomic.Int32
}

// knownIDs is the largest number of entry IDs that descriptions keeps: more than a
// file has that was not crafted to exhaust memory.
const knownIDs = 1 << 10

// describe returns the description of an entry ID. It may be called concurrently.
func (d *descriptions) describe(id string) *description {
	if known, ok := d.known.Load(id); ok {
		return known.(*description)
	}
	fresh := describe(id)
	if d.count.Load() < knownIDs {
		if known, ok := d.known.LoadOrStore(id, fresh); ok {
			return known.(*description)
		}
		d.count.Add(1)
	}
	return fresh
}

// wrap adds the file or member of a place to an error, unless it already names a file.
func (p *Place) wrap(err error) error {
	if err == nil || namesFile(err) {
		return err
	}
	return &PlaceError{Place: (&Place{File: p.File, Members: p.Members}).String(), Err: err}
}

// String describes the image for messages: hip amdgcn-amd-amdhsa gfx942 of a.o.
func (e *DeviceImage) String() string {
	name := e.Offload + " " + e.Triple
	if e.Arch != "" {
		name += " " + e.Arch
	}
	if len(e.Members) > 0 {
		name += " of " + e.Member()
	}
	return name
}

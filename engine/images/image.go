package images

import (
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Form is how a device image is stored. The values are the words of reports.
type Form string

// The forms.
const (
	FormOffloadBinary Form = "offload binary"
	FormBundle        Form = "bundle"
	FormText          Form = "text bundle"
	FormCompressed    Form = "compressed bundle"
	FormSection       Form = "bundled object" // a section of its own
	FormFatbinary     Form = "CUDA fatbinary"
	FormFile          Form = "code object" // the file itself
)

// Place is where a device image is stored.
type Place struct {
	File    string   // the input, as the request named it
	Members []string // archive members that lead to the image, the outermost first
	Section string   // of the object that the image is in; "" outside of sections
	Form    Form
	// Container is where the offload binary or the bundle starts in the file,
	// member or section that holds it, in bytes. It is 0 for other forms.
	Container int64
	// Bundle is the number of the bundle among those of the file or member,
	// from 1; the sections of a bundled object count as one. It is 0 outside of
	// bundles.
	Bundle int
	// Index is the position of the image in its bundle or offload binary, from
	// 0, in the order of the file.
	Index int
	// Offset is where the content starts in the file or member; for images that
	// are stored compressed, in the uncompressed bytes of their container.
	Offset int64
}

// Holder returns the name of the innermost file of the place: an archive member,
// or the input as the request named it.
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

// String returns the place as error messages name it: lib.a(member.o): section
// .llvm.offloading.
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

// PlaceError is a fault of something found in a file.
type PlaceError struct {
	Place string // the file, with archive members and the section
	Err   error
}

// Error returns the place and the fault.
func (e *PlaceError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns the fault alone.
func (e *PlaceError) Unwrap() error { return e.Err }

// DeviceImage is a device image found in a file. Its fields stay valid after
// Close of the File that it belongs to, its content does not.
type DeviceImage struct {
	Place
	// Size is the size of the image, in bytes. The host entry of a bundled
	// object has the size of its section, though its content is the object.
	Size int64

	// Offload is the offload kind: openmp, hip, cuda, sycl, hipv4, host or none.
	Offload string
	// Triple is the target triple; "" if nothing states it.
	Triple string
	// Arch is the processor or target ID; "" if nothing states it.
	Arch string
	// Format is the format of the content. It is None where only decoding would
	// tell, see Compressed, and for entries of binary bundles in Scope Bundles.
	Format offloadbinary.ImageKind

	// ID is the entry ID as a bundle stores it, "" outside of bundles.
	ID string
	// Target is the parsed ID, if BadID is nil.
	Target target.ID
	// BadID says why ID is not an entry ID.
	BadID error

	// Properties are all properties that an offload binary has of its image.
	Properties []offloadbinary.String

	binary  bool   // an entry of a binary bundle
	endID   string // the ID in the END line of a text bundle
	content content
	nested  []*DeviceImage
	fault   error // of what is nested
}

// content says where the bytes of an image are.
type content struct {
	plain  files.Content // if they are in a file or in memory
	reader *ccob.Reader  // if they are in a compressed bundle
	offset int64         // there
	size   int64         // there
	// host says that the bytes are an object without the sections of its
	// entries: the host object of a bundled object.
	host bool
}

// Compressed reports whether the image must be decoded to be read.
func (e *DeviceImage) Compressed() bool { return e.content.reader != nil }

// HostObject reports whether the image is the host object of a bundled object:
// its content is that object without the sections of its entries.
func (e *DeviceImage) HostObject() bool { return e.content.host }

// Get returns a property of the image by the name it has in an offload binary.
// Images elsewhere have the properties triple and arch.
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
	img := offloadbinary.Image{Strings: e.Properties}
	return img.Get(key)
}

// Unwrap returns the images of the offload binaries that the image consists of,
// and of those nested in these, in their order; the image itself if it is not an
// offload binary. The error is the fault of what is nested.
func (e *DeviceImage) Unwrap() ([]*DeviceImage, error) {
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

// describe takes what an entry ID tells.
func (e *DeviceImage) describe(id string) { e.take(id, describe(id)) }

// take takes the description of an entry ID.
func (e *DeviceImage) take(id string, d description) {
	e.ID = id
	e.Target, e.BadID, e.Offload, e.Triple, e.Arch = d.target, d.bad, d.offload, d.triple, d.arch
}

// description is what an entry ID tells.
type description struct {
	target                target.ID
	bad                   error
	offload, triple, arch string
}

func describe(id string) description {
	d := description{offload: "none"}
	if d.target, d.bad = target.Parse(id); d.bad == nil {
		d.offload = string(d.target.Kind)
		d.triple = strings.TrimRight(d.target.Triple.String(), "-")
		d.arch = d.target.TargetID
	}
	return d
}

// wrap puts the place of an image before an error, unless it names a file itself.
func (e *DeviceImage) wrap(err error) error {
	if err == nil || namesFile(err) {
		return err
	}
	return &PlaceError{Place: (&Place{File: e.File, Members: e.Members}).String(), Err: err}
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

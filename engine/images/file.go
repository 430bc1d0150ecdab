// Package images finds the device images in a file, however they are stored: in
// bundles (binary, text and compressed, also several adjacent ones), in offload
// binaries, CUDA fatbinaries and bundled objects; in the sections of objects,
// programs and shared libraries, in bitcode and in the members of archives.
// Every operation of the engine that reads device images from a file uses this
// package.
//
// Open returns a File, which is valid until Close. It lists the images in the
// order of the file, with their places:
//
//	f, err := images.Open(ctx, "lib.so", images.Options{})
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	for image, err := range f.Images() {
//		if err != nil {
//			return err
//		}
//		fmt.Println(image.Arch, image.Size)
//	}
//
// This reads only headers. Copy writes contents to files; Load decodes them to
// memory.
package images

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Scope selects the images that Open searches for.
type Scope int

const (
	// Everything selects every device image in any form, based on the content of
	// files and sections.
	Everything Scope = iota
	// OffloadBinaries selects the images in offload binaries, as
	// llvm-offload-binary does.
	OffloadBinaries
	// Bundles selects the entries of a file of Options.Type, read as
	// clang-offload-bundler reads it. Bundles in other sections are ignored.
	Bundles
)

// Options select how a file is read. With the zero value, Open finds every
// device image.
type Options struct {
	Scope Scope
	// Type is the type of file in Scope Bundles; "" is bundle.ObjectType.
	Type bundle.FileType
	// Lenient accepts compressed bundles with a wrong hash or wrong sizes, as LLVM
	// does.
	Lenient bool
	// Verify checks the hash of every compressed bundle whose contents are
	// decoded, even if that takes long. Otherwise contents are checked with the
	// index of their bundle, and small bundles without an index with their hash.
	Verify bool
	// MaxSize limits the uncompressed size of a compressed bundle, in bytes; 0
	// means any size that the compressed data can have.
	MaxSize int64
	// Release decides the order of BundlerOrder, see target.Release.Order.
	Release target.Release
	// Measure decodes and hashes every compressed bundle, see Bundle.
	Measure bool
	// Visit, if not nil, is called with each source that was searched without a
	// fault. It is called concurrently, on the core that searched the source. Its
	// error is a fault of the source. Small compressed bundles are decoded once
	// for both the search and Visit.Load; without Visit, or with File.Load, they
	// are decoded twice.
	Visit func(context.Context, *Visit) error

	// OpenMember opens a member of a thin archive, which is a file of its own, by its path. If nil,
	// such members are files of the operating system.
	OpenMember func(path string) (Input, error)
	// Budget limits the cores and the memory; nil means the budget of the process.
	Budget *budget.Budget
}

// Input is an open file. Its content is valid until Close.
type Input interface {
	// Name returns the name of the file in messages and in places of images.
	Name() string
	// All returns all bytes.
	All() content.Content
	io.Closer
}

// Source is a file or an archive member that was searched for images.
type Source struct {
	Place // only File and Members
	Size  int64
	// Format is the format that the content appears to have, such as "archive", for messages.
	Format string
	// Archive reports whether the content is an archive. Its members are Sources of their own.
	Archive bool
	// Bundles are the binary and compressed bundles in the source, in order.
	Bundles []Bundle
	// NumBundles is the number of the last bundle, see Place.Bundle. Compressed
	// bundles whose content is not a bundle are not counted; those in sections
	// are.
	NumBundles int
	// Images are the images in the source, in order.
	Images []*DeviceImage
	// Self is the source as one image, uncompressed, if Scope Bundles finds no
	// bundle in it.
	Self *DeviceImage

	format    object.Format
	complete  bool
	forgotten bool // whether it had images, see Visit.Forget
	release   target.Release
}

// Bundle is a bundle found in a file.
type Bundle struct {
	Size int64 // as it is stored, in bytes
	// Header is the header of a compressed bundle; nil for other bundles.
	Header *ccob.Header
	// Hash is the hash of the uncompressed bytes, and Duration the time to decode
	// them. They are set for compressed bundles with Options.Measure.
	Hash     uint64
	Duration time.Duration
}

// BundlerOrder returns the images of the source in the order in which
// clang-offload-bundler visits them: the entries of each binary bundle are in
// hash table order.
func (s *Source) BundlerOrder() []*DeviceImage {
	ordered := make([]*DeviceImage, 0, len(s.Images))
	for rest := s.Images; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].Bundle == rest[0].Bundle && rest[n].Container == rest[0].Container {
			n++
		}
		if rest[0].binary {
			ids := make([]string, n)
			for i, image := range rest[:n] {
				ids[i] = image.ID
			}
			for _, i := range s.release.Order(ids) {
				ordered = append(ordered, rest[i])
			}
		} else {
			ordered = append(ordered, rest[:n]...)
		}
		rest = rest[n:]
	}
	return ordered
}

// File is an open file and the device images in it. Its methods may be called
// concurrently, except Close.
type File struct {
	name   string
	budget *budget.Budget
	// account is the account for all memory of the file.
	account  *budget.Account
	inflated *budget.Reservation // for compressed offload binaries
	store    store               // contents that visits loaded
	ids      descriptions        // of entries
	decoded  []*decoded          // bundles that the search decoded, for Copy and Load

	input   Input
	sources []*Source
	fault   error // the fault that ended the search

	mu      sync.Mutex
	opened  []Input               // members of thin archives
	batches []*ccob.Batch         // not in use
	memory  []*budget.Reservation // for the images and bundles found
}

// Open opens a file of the operating system and finds the device images in it. It returns an error if
// the file cannot be opened or ctx is done; Images and Sources report faults of the content.
func Open(ctx context.Context, name string, opt Options) (_ *File, err error) {
	defer guard.Into(&err)()
	input, err := files.NewRoot("").Open(name)
	if err != nil {
		return nil, err
	}
	return Read(ctx, input, opt)
}

// Read finds the device images in an open file. It closes the file if it returns an error, and else
// File.Close does. The error is that of ctx; Images and Sources report faults of the content.
func Read(ctx context.Context, input Input, opt Options) (_ *File, err error) {
	defer guard.Into(&err)()
	if opt.OpenMember == nil {
		root := files.NewRoot("")
		opt.OpenMember = func(path string) (Input, error) { return root.OpenRegular(path) }
	}
	f := &File{name: input.Name(), budget: opt.Budget, account: opt.Budget.Account(ctx), input: input}
	if err := f.search(f.account.Context(ctx), opt); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// search finds the images. Compressed offload binaries contain the headers of
// images, so they are inflated to reserved memory. Their sizes are known after
// reading their headers, and those of nested ones after inflating the outer
// ones. The search then starts again with the required memory.
func (f *File) search(ctx context.Context, opt Options) error {
	for reserved := int64(0); ; {
		memory := &inflation{left: reserved}
		s := &search{in: f, opt: opt, memory: memory, left: limits.Found, batch: f.takeBatch(&opt)}
		f.fault = guard.Contain(func() error {
			return s.file(ctx, f.input.All(), place{Place: Place{File: f.name}, path: f.name})
		})
		f.putBatch(s.batch)
		for _, b := range f.batches {
			b.Close()
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if memory.need <= reserved || reserved == limits.Inflated {
			f.sources = s.sources
			f.store.settle()
			return nil
		}
		f.closeMembers()
		f.forget()
		f.release()
		// At least double the memory, so that deep nesting does not require many
		// attempts.
		reserved = min(max(memory.need, 2*reserved), limits.Inflated)
		var err error
		if f.inflated, err = f.account.Reserve(ctx, reserved); err != nil {
			if context.Cause(ctx) == nil {
				err = &PlaceError{Place: f.name, Err: err}
			}
			return err
		}
	}
}

// Close releases the file and its memory. Contents must not be used after it.
func (f *File) Close() error {
	f.closeMembers()
	f.store.close()
	f.forget()
	f.release()
	return f.input.Close()
}

// reserve reserves memory until Close.
func (f *File) reserve(ctx context.Context, n int64) error {
	memory, err := f.account.Reserve(ctx, n)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory = append(f.memory, memory)
	return nil
}

// release releases the memory.
func (f *File) release() {
	f.inflated.Release()
	release(f.memory)
	f.memory = nil
}

func (f *File) closeMembers() {
	for _, input := range f.opened {
		input.Close()
	}
	f.opened = nil
}

// Name returns the name of the file as the request wrote it.
func (f *File) Name() string { return f.name }

// Content returns the bytes of the file itself, which are valid until Close.
func (f *File) Content() content.Content { return f.input.All() }

// Sources returns the files and archive members that were searched, in order. A
// fault ends the sequence. It comes with its source, as far as that was read, or
// with nil. Faults are of type *PlaceError, except for errors that already name a
// file.
func (f *File) Sources() iter.Seq2[*Source, error] {
	return func(yield func(*Source, error) bool) {
		for _, source := range f.sources {
			if !source.complete {
				yield(source, f.fault)
				return
			}
			if !yield(source, nil) {
				return
			}
		}
		if f.fault != nil {
			yield(nil, f.fault)
		}
	}
}

// Images returns the images in the order of the file. An image that is an
// offload binary itself is one image, see DeviceImage.Unwrap. A fault ends the
// sequence, as in Sources.
func (f *File) Images() iter.Seq2[*DeviceImage, error] {
	return func(yield func(*DeviceImage, error) bool) {
		for _, source := range f.sources {
			for _, image := range source.Images {
				if !yield(image, nil) {
					return
				}
			}
		}
		if f.fault != nil {
			yield(nil, f.fault)
		}
	}
}

// Self returns the complete file as one image of FormFile, for reading a code
// object that is not stored in a container.
func (f *File) Self() *DeviceImage {
	c := f.input.All()
	e := &DeviceImage{Size: c.Len(), Offload: "none", content: origin{plain: c}}
	e.File, e.Form = f.name, FormFile
	return e
}

// All returns all images, or the fault of the file.
func (f *File) All() ([]*DeviceImage, error) {
	var all []*DeviceImage
	for image, err := range f.Images() {
		if err != nil {
			return nil, err
		}
		all = append(all, image)
	}
	return all, nil
}

// Unwrapped returns all images, where offload binaries are replaced by the
// images in them.
func (f *File) Unwrapped() (_ []*DeviceImage, err error) {
	defer guard.Into(&err)()
	var all []*DeviceImage
	for image, err := range f.Images() {
		if err != nil {
			return nil, err
		}
		images, err := image.Unwrap()
		if err != nil {
			return nil, err
		}
		all = append(all, images...)
	}
	return all, nil
}

// keep keeps the file of a thin archive's member open, or closes it if it has no
// images.
func (f *File) keep(input Input, has bool) {
	if !has {
		input.Close()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = append(f.opened, input)
}

// namesFile reports whether an error already names a file.
func namesFile(err error) bool {
	_, known := errors.AsType[*files.Error](err)
	_, placed := errors.AsType[*PlaceError](err)
	return known || placed
}

// hasImages reports whether any of the sources has images, or had them.
func hasImages(sources []*Source) bool {
	return slices.ContainsFunc(sources, func(s *Source) bool { return len(s.Images) > 0 || s.forgotten || s.Self != nil })
}

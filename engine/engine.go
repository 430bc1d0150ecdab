// Package engine has the operations of the product: it makes bundles, offload
// binaries, archives and registration objects, and takes device images out of
// any file. New returns a Session; each operation is one of its methods, takes an
// options struct, and leaves either all of its outputs or none. Command lines,
// worker requests and drop-ins all end here.
//
// Operations know how formats go together; the formats themselves are in the
// packages below. Package images reads device images from files.
package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
)

// Config says what a Session works with. The zero value is a working
// configuration.
type Config struct {
	// Files resolves the paths of the request and keeps its inputs from being
	// overwritten; nil is the working directory, without standard input and
	// output.
	Files *files.Root
	// Budget is the cores and the memory of the operations. Sessions of one
	// process share one; nil is budget.Budget's own default.
	Budget *budget.Budget
	// Meter, if not nil, counts what long operations have done.
	Meter *Meter
}

// Session runs the operations of one request.
type Session struct {
	files  *files.Root
	budget *budget.Budget
	meter  *Meter
}

// New returns a Session.
func New(c Config) *Session {
	if c.Files == nil {
		c.Files = files.NewRoot("")
	}
	return &Session{files: c.Files, budget: c.Budget, meter: c.Meter}
}

// Files returns the files of the request.
func (s *Session) Files() *files.Root { return s.files }

// Context returns a context in which all operations of the Session share one account of
// memory, see budget.Account, so that each knows what the others hold.
func (s *Session) Context(ctx context.Context) context.Context {
	return s.budget.Account(ctx).Context(ctx)
}

// Open opens a file and finds the device images in it, see package images. The
// File is valid until its Close. Open fails if the file cannot be opened, with an
// error of type *files.Error where the system gives the reason; faults of the
// content come from the methods of the File.
func (s *Session) Open(ctx context.Context, name string, opt images.Options) (*images.File, error) {
	opt.Budget = s.budget
	return images.Open(ctx, s.files, name, opt)
}

// ReadOptions say how bundles are read.
type ReadOptions struct {
	// Lenient takes compressed bundles whose hash or sizes are wrong, as LLVM does.
	Lenient bool
	// Verify checks the hash of every compressed bundle that is unbundled, however
	// long that takes.
	Verify bool
	// MaxSize is the largest size of a compressed bundle when uncompressed, in
	// bytes; 0 means any that the compressed data makes possible.
	MaxSize int64
	// LLVM23 has the entries of binary bundles visited in the order of LLVM 23 and later, see
	// target.Order23.
	LLVM23 bool
	// Stats, if not nil, gets every bundle before it is used. Compressed bundles
	// are then decoded in full to check their hash.
	Stats func(images.Bundle)
	// Warn, if not nil, gets what is wrong with bundles that can be read nevertheless, see
	// images.Source.Warnings.
	Warn func(error)
}

// openBundles opens a file of bundles of a type.
func (s *Session) openBundles(ctx context.Context, name string, t bundle.FileType, read ReadOptions) (*images.File, error) {
	return s.Open(ctx, name, read.options(t))
}

// options are those to open a file of bundles of a type with.
func (opt *ReadOptions) options(t bundle.FileType) images.Options {
	return images.Options{
		Scope: images.Bundles, Type: t,
		Lenient: opt.Lenient, Verify: opt.Verify, MaxSize: opt.MaxSize, LLVM23: opt.LLVM23, Measure: opt.Stats != nil,
	}
}

// tell reports the bundles of a source to Stats and Warn. Of a source without bundles, Stats gets
// the size only, if it could be a bundle.
func (opt *ReadOptions) tell(source *images.Source) {
	if source == nil {
		return
	}
	if opt.Warn != nil {
		for _, warning := range source.Warnings() {
			opt.Warn(warning)
		}
	}
	if opt.Stats == nil {
		return
	}
	const least = 8
	if source.Bundles == nil && source.Size >= least {
		opt.Stats(images.Bundle{Size: source.Size})
	}
	for _, b := range source.Bundles {
		opt.Stats(b)
	}
}

// write runs fn with a transaction of outputs and commits it if fn succeeds.
func (s *Session) write(ctx context.Context, fn func(out *files.Outputs) error) error {
	out := s.files.Outputs()
	defer out.Abort()
	if err := files.Contain(func() error { return fn(out) }); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return out.Commit()
}

// in puts the name of a file before an error of one of its formats.
func in(input *files.Input, err error) error { return nameError(input.Name(), err) }

// nameError puts the name of a file before an error that does not have it.
func nameError(name string, err error) error {
	if err == nil {
		return nil
	}
	var known *files.Error
	if errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Package engine implements the operations of the product: it writes bundles,
// offload binaries, archives and registration objects, and extracts device images
// from any file. New returns a Session. Each operation is a method of Session,
// takes an options struct, and writes either all of its outputs or none. Command
// lines, worker requests and drop-in replacements all call this package.
//
// The operations combine formats; each format has a package of its own below
// this one. Package images reads device images from files.
package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/files"
)

// Config configures a Session. The zero value is valid.
type Config struct {
	// Files resolves the paths of the request and protects its inputs from being
	// overwritten. If nil, paths are relative to the working directory, and
	// standard input and output are not available.
	Files *files.Root
	// Budget limits the cores and the memory of the operations. The Sessions of a
	// process share one; nil means the default of budget.Budget.
	Budget *budget.Budget
	// Meter, if not nil, counts the progress of long operations.
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
// memory, see budget.Account, so that each takes the memory of the others into account.
func (s *Session) Context(ctx context.Context) context.Context {
	return s.budget.Account(ctx).Context(ctx)
}

// Open opens a file and finds the device images in it, see package images. The
// File is valid until its Close. Open fails if the file cannot be opened, with an
// error of type *files.Error where the system gives the reason; the methods of
// the File report faults of the content.
func (s *Session) Open(ctx context.Context, name string, opt images.Options) (*images.File, error) {
	opt.Budget = s.budget
	return images.Open(ctx, s.files, name, opt)
}

// ReadOptions select how bundles are read.
type ReadOptions struct {
	// Lenient accepts compressed bundles with a wrong hash or wrong sizes, as LLVM
	// does.
	Lenient bool
	// Verify checks the hash of every compressed bundle that is unbundled, even if
	// that takes long.
	Verify bool
	// MaxSize limits the uncompressed size of a compressed bundle, in bytes; 0
	// means any size that the compressed data can have.
	MaxSize int64
	// Release decides the order in which the entries of binary bundles are visited, see
	// target.Release.Order.
	Release target.Release
	// Stats, if not nil, is called with every bundle before it is used. Compressed
	// bundles are then decoded in full to check their hash.
	Stats func(images.Bundle)
	// Warn, if not nil, is called with faults of bundles that can still be read, see
	// images.Source.Warnings.
	Warn func(error)
}

// openBundles opens a file of bundles of a type.
func (s *Session) openBundles(ctx context.Context, name string, t bundle.FileType, read ReadOptions) (*images.File, error) {
	return s.Open(ctx, name, read.options(t))
}

// options returns the options for opening a file of bundles of a type.
func (opt *ReadOptions) options(t bundle.FileType) images.Options {
	return images.Options{
		Scope: images.Bundles, Type: t,
		Lenient: opt.Lenient, Verify: opt.Verify, MaxSize: opt.MaxSize, Release: opt.Release, Measure: opt.Stats != nil,
	}
}

// tell reports the bundles of a source to Stats and Warn. For a source without bundles that could
// be a bundle, Stats gets only the size.
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
	return s.files.Write(ctx, fn)
}

// in prefixes an error about the format of a file with the name of the file.
func in(input *files.Input, err error) error { return files.NameError(input.Name(), err) }

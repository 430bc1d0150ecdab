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
	"io"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Config configures a Session. The zero value is valid.
type Config struct {
	// Dir is the directory of relative paths; "" is the working directory of the process.
	Dir string
	// Inputs, if not nil, are the only files that the Session may read, by their paths in options. A
	// directory stands for everything in it.
	Inputs []string
	// Contents are inputs in memory: an option that names one of them reads it instead of a file. They
	// must not change while the Session is in use.
	Contents map[string][]byte
	// Writers are outputs that are not files: an option that names one of them writes to it instead of
	// to a file, once all outputs of the operation are complete.
	Writers map[string]io.Writer
	// Stdin and Stdout are the input and the output with the name "-"; if nil, that name is an error.
	Stdin  io.Reader
	Stdout io.Writer
	// MaxStream limits the bytes of Stdin, or of a pipe or device, that are read into memory; 0 means
	// 8 GiB.
	MaxStream int64
	// TempDir is the directory of temporary files for outputs in directories that are not writable, and
	// for Writers and Stdout; "" means /tmp.
	TempDir string
	// Budget limits the cores and the memory of the operations. The Sessions of a
	// process share one; nil means the default of budget.Budget.
	Budget *budget.Budget
	// Meter, if not nil, counts the progress of long operations.
	Meter *Meter
}

// Session runs the operations of one request: it protects the inputs of the request from being
// overwritten by its outputs. Operations of a Session can run concurrently if none of them reads or
// writes what another one writes; Sessions are independent of each other.
type Session struct {
	files  *files.Root
	budget *budget.Budget
	meter  *Meter
}

// New returns a Session.
func New(c Config) *Session {
	root := files.NewRoot(c.Dir)
	if c.Inputs != nil {
		root.Declare(c.Inputs)
	}
	root.Contents, root.Writers = c.Contents, c.Writers
	root.Stdin, root.Stdout, root.TempDir = c.Stdin, c.Stdout, c.TempDir
	root.MaxStream = func() int64 { return c.MaxStream }
	return &Session{files: root, budget: c.Budget, meter: c.Meter}
}

// Files returns the files of the Session, for operations of other packages: it opens inputs, and writes
// outputs all or none. Names are those of the request.
func (s *Session) Files() *files.Root { return s.files }

// Budget returns the budget of the Session; nil means the default of budget.Budget.
func (s *Session) Budget() *budget.Budget { return s.budget }

// Meter returns the Meter of the Session, which can be nil.
func (s *Session) Meter() *Meter { return s.meter }

// WithBudget returns a Session with the files of s and another budget.
func (s *Session) WithBudget(b *budget.Budget) *Session {
	limited := *s
	limited.budget = b
	return &limited
}

// Output is a file for WriteFiles.
type Output struct {
	Name  string
	Write func(io.Writer) error
}

// WriteFiles writes files that are outputs of the request, all of them or none.
func (s *Session) WriteFiles(ctx context.Context, outputs ...Output) (err error) {
	defer guard.Into(&err)()
	return s.write(ctx, func(out *files.Outputs) error {
		for _, o := range outputs {
			if _, err := out.WriteFile(o.Name, func(file *files.Output) error { return o.Write(file) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// Context returns a context in which all operations of the Session share one account of
// memory, see budget.Account, so that each takes the memory of the others into account.
func (s *Session) Context(ctx context.Context) context.Context {
	return s.budget.Account(ctx).Context(ctx)
}

// Open opens a file and finds the device images in it, see package images. The
// File is valid until its Close. Open fails if the file cannot be opened, with an
// error of type [*files.Error] where the system gives the reason; the methods of
// the File report faults of the content.
func (s *Session) Open(ctx context.Context, name string, opt images.Options) (_ *images.File, err error) {
	defer guard.Into(&err)()
	input, err := s.files.Open(name)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, input, opt)
}

// read finds the device images in an input, which it closes if it fails.
func (s *Session) read(ctx context.Context, input *files.Input, opt images.Options) (*images.File, error) {
	opt.Budget = s.budget
	opt.OpenMember = func(path string) (images.Input, error) { return s.files.OpenRegular(path) }
	return images.Read(ctx, input, opt)
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

// transform opens inputs, and calls fn to write outputs that are made of them: all of the outputs or none.
func (s *Session) transform(ctx context.Context, names []string, fn func(inputs []*files.Input, out *files.Outputs) error) error {
	inputs, err := s.openAll(names)
	defer closeAll(inputs)
	if err != nil {
		return err
	}
	return s.write(ctx, func(out *files.Outputs) error { return fn(inputs, out) })
}

// openAll opens files. With an error, it returns those that it has opened.
func (s *Session) openAll(names []string) ([]*files.Input, error) {
	var inputs []*files.Input
	for _, name := range names {
		input, err := s.files.Open(name)
		if err != nil {
			return inputs, err
		}
		inputs = append(inputs, input)
	}
	return inputs, nil
}

func closeAll(inputs []*files.Input) {
	for _, input := range inputs {
		if input != nil {
			input.Close()
		}
	}
}

// write runs fn with a transaction of outputs and commits it if fn succeeds.
func (s *Session) write(ctx context.Context, fn func(out *files.Outputs) error) error {
	return s.files.Write(ctx, fn)
}

// in prefixes an error about the format of a file with the name of the file.
func in(input *files.Input, err error) error { return files.NameError(input.Name(), err) }

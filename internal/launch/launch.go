// Package launch runs a compilation as the jobs that its driver lists, each of them with a result in a cache.
// It leaves the files that the compiler would leave, and prints what it would print.
package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/launch/key"
	"github.com/rules-offload/rules_offload/internal/launch/plan"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
)

// Options describe a compilation.
type Options struct {
	// Command is the compiler and its arguments.
	Command []string
	Env     []string // all of its environment
	Dir     string   // the working directory of the process
	// Store has the results.
	Store cache.Store
	// Local keeps records of this machine: identities of programs, jobs of drivers, and the components of the last
	// keys. nil keeps none.
	Local *cache.Local
	// BaseDir is the directory whose absolute paths in Command are made relative to Dir; "" changes none.
	BaseDir string
	// SharedNames leaves the name of the output out of the name of the compilation unit (CUID). The
	// results of two outputs are then equal, and cannot be linked into one program if the driver defines a symbol with
	// that name.
	SharedNames bool
	// Slots limits the jobs that run at a time.
	Slots Slots
	// Stderr receives the messages of the compiler.
	Stderr io.Writer
	// Color reports whether Stderr is a terminal with colours.
	Color bool
}

// Slots limit the jobs that run at a time.
type Slots interface {
	// Acquire waits for a slot for a job that requires memory, in bytes, and returns the function that releases it.
	Acquire(ctx context.Context, memory int64) (release func(), err error)
}

// States of steps.
const (
	Hit    = "hit"
	Miss   = "miss"
	Unused = "unused" // a packed file that no job needed
)

// A Step is the result of one step of a compilation.
type Step struct {
	Target string // the GPU, or "host"
	State  string // Hit, Miss or Unused
	Key    string // of the result, in hexadecimal digits
	Why    string // of a miss, or why the result is not stored; may be empty
	Time   time.Duration
}

// An Outcome describes a compilation.
type Outcome struct {
	// Passed is why the compilation was not run, "" if it was. The caller then runs the command as it is.
	Passed string
	Steps  []Step
	// Warning is a problem of the cache that does not concern the compilation, nil for none.
	Warning error
}

// run is a call of Run.
type run struct {
	opt      *Options
	compiler string   // the path of the compiler
	args     []string // of the compiler
	command  *plan.Command
	plan     *plan.Compilation
	steps    []*step
	files    *key.Files
	started  time.Time

	mu       sync.Mutex
	programs map[string]*program
	temp     *scratch.Dir // for temporary files, created by tempDir; nil until then
	warning  error
}

// A step is one job, or a compilation and the device link that only it feeds.
type step struct {
	index  int
	jobs   []plan.Job
	inputs []*step
	final  bool
	form   *key.Form // of a compilation

	done   chan struct{}
	err    error
	digest cache.Digest // of the output; for a packed file, of what it is made from
	stderr []byte
	report Step

	action cache.Digest // of the result
	output []byte       // the output, if it was read or written by this process
	deps   []byte       // the list for the dependency file
	// material creates the file of the output, once.
	material sync.Once
	path     string
	pathErr  error
}

// kind returns the kind of the first job.
func (s *step) kind() plan.Kind { return s.jobs[0].Kind }

// last returns the job that writes the output.
func (s *step) last() plan.Job { return s.jobs[len(s.jobs)-1] }

// Names of outputs in results.
const (
	objectOutput   = "object"
	depsOutput     = "dependencies"
	manifestOutput = "manifest"
)

// Run runs a compilation. An error is one of the caller's machine; a compilation that fails is Passed, so that the compiler
// prints its messages itself.
func Run(ctx context.Context, opt Options) (*Outcome, error) {
	r := &run{opt: &opt, files: key.NewFiles(), programs: map[string]*program{}, started: time.Now()}
	err := guard.Contain(func() error { return r.run(ctx) })
	if r.temp != nil {
		r.temp.Remove()
	}
	out := &Outcome{Warning: r.warning}
	for _, s := range r.steps {
		if s.kind() != plan.Pack || s.final {
			out.Steps = append(out.Steps, s.report)
		}
	}
	var reason plan.Reason
	switch {
	case errors.As(err, &reason):
		out.Passed = string(reason)
	case err != nil && context.Cause(ctx) == nil:
		out.Passed = err.Error()
	case err != nil:
		return nil, context.Cause(ctx)
	}
	return out, nil
}

func (r *run) run(ctx context.Context) (err error) {
	if foreign := selected(r.opt.Env, foreignVariables); len(foreign) > 0 {
		name, _, _ := strings.Cut(foreign[0], "=")
		return plan.Reason("the environment has " + name)
	}
	if r.compiler, err = exec.LookPath(r.opt.Command[0]); err != nil {
		return plan.Reason("the compiler is not found")
	}
	if r.compiler, err = filepath.Abs(r.compiler); err != nil {
		return err
	}
	r.args = r.relative(r.opt.Command[1:])
	if r.command, err = plan.Check(r.args); err != nil {
		return err
	}
	if r.plan, err = r.jobs(ctx); err != nil {
		return err
	}
	if err := r.setUnit(); err != nil {
		return err
	}
	if err := r.makeSteps(); err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, s := range r.steps {
		go func() {
			defer close(s.done)
			if s.err = guard.Contain(func() error { return r.resolve(running, s) }); s.err != nil {
				cancel(s.err)
			}
		}()
	}
	for _, s := range r.steps {
		<-s.done
	}
	if err := context.Cause(running); err != nil {
		return err
	}
	return r.finish(ctx)
}

// finish writes the outputs, and prints the messages in the order of the driver.
func (r *run) finish(ctx context.Context) error {
	final := r.steps[len(r.steps)-1]
	var dependencies, list string
	for _, s := range r.steps {
		if s.form == nil || s.form.Dependencies == "" {
			continue
		}
		if dependencies != "" {
			return plan.Reason("several jobs write dependency files")
		}
		dependencies, list = s.form.Dependencies, string(s.deps)
		if !s.final {
			return plan.Reason("a job that is not the last one writes the dependency file")
		}
	}
	if final.output == nil {
		path, err := r.materialize(ctx, final)
		if err != nil {
			return err
		}
		if final.output, err = os.ReadFile(path); err != nil {
			return err
		}
	}
	if dependencies != "" {
		names := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
		if err := writeOutput(r.path(dependencies), key.Depfile(final.form.Targets, names, final.form.Phony)); err != nil {
			return err
		}
	}
	if err := writeOutput(r.path(final.last().Output), final.output); err != nil {
		return err
	}
	var messages bytes.Buffer
	messages.WriteString(r.plan.Messages)
	for _, s := range r.steps {
		messages.Write(s.stderr)
	}
	_, _ = r.opt.Stderr.Write(messages.Bytes())
	return nil
}

// path returns the path of a file of the compilation.
func (r *run) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.opt.Dir, name)
}

// writeOutput replaces a file with a complete one.
func writeOutput(name string, data []byte) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return plan.Reason(name + " is not a regular file")
	}
	f, err := createBeside(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// createBeside creates a temporary file beside a file, with the permissions of a new file.
func createBeside(name string) (*os.File, error) {
	for i := 0; ; i++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d-%d.tmp", name, os.Getpid(), i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, os.ErrExist) || i == 100 {
			return f, err
		}
	}
}

// makeSteps groups the jobs, and computes their normal forms.
func (r *run) makeSteps() error {
	owner := map[int]*step{}
	jobs := r.plan.Jobs
	for i, job := range jobs {
		readers := 0
		if len(job.Inputs) == 1 {
			for _, other := range jobs {
				if slices.Contains(other.Inputs, job.Inputs[0]) {
					readers++
				}
			}
		}
		// A device link of one compilation is a part of it.
		if job.Kind == plan.Link && readers == 1 && owner[job.Inputs[0]].kind() == plan.Compile {
			s := owner[job.Inputs[0]]
			s.jobs = append(s.jobs, job)
			owner[i] = s
			continue
		}
		if job.Kind == plan.Link {
			return plan.Reason("a device link of several files")
		}
		s := &step{index: len(r.steps), jobs: []plan.Job{job}, done: make(chan struct{}), report: Step{Target: job.Target, State: Unused}}
		for _, input := range job.Inputs {
			if in := owner[input]; !slices.Contains(s.inputs, in) {
				s.inputs = append(s.inputs, in)
			}
		}
		owner[i] = s
		r.steps = append(r.steps, s)
	}
	for _, s := range r.steps {
		if s.report.Target == "" {
			s.report.Target = "package"
		}
		s.final = s == r.steps[len(r.steps)-1]
		if s.kind() != plan.Compile {
			continue
		}
		var inputs []string
		for _, in := range s.inputs {
			inputs = append(inputs, in.last().Output)
		}
		form, err := key.Normalize(s.jobs[0].Args, inputs)
		if err != nil {
			return err
		}
		s.form = form
	}
	if final := r.steps[len(r.steps)-1]; final.kind() == plan.Link {
		return plan.Reason("the compiler links")
	}
	return nil
}

// base returns the hash of everything that a step depends on, but for the headers and sources that it reads.
func (r *run) base(ctx context.Context, s *step) ([32]byte, error) {
	var h key.Hash
	h.Text("offload launch 1")
	for i, job := range s.jobs {
		tool, err := r.identify(ctx, job.Args[0])
		if err != nil {
			return [32]byte{}, err
		}
		if tool.script {
			return [32]byte{}, plan.Reason(filepath.Base(job.Args[0]) + " is a script")
		}
		h.Text(string(tool.id[:]))
		if i == 0 && s.form != nil {
			h.Text(s.form.Words...)
			continue
		}
		if err := r.tool(ctx, job, &h); err != nil {
			return [32]byte{}, err
		}
	}
	h.Text("environment")
	h.Text(selected(r.opt.Env, jobVariables)...)
	h.Text("inputs")
	for _, in := range s.inputs {
		h.Digest(in.digest)
	}
	if s.form != nil {
		for _, name := range s.form.Files {
			d, err := r.files.Digest(r.path(name))
			if err != nil {
				return [32]byte{}, plan.Reason(err.Error())
			}
			h.Digest(d)
		}
		if s.form.Source != "" {
			d, err := r.files.Digest(r.path(s.form.Source))
			if err != nil {
				return [32]byte{}, plan.Reason(err.Error())
			}
			h.Digest(d)
		}
	}
	return h.Key(), nil
}

// helpers are the programs that a job can run from its own directory.
var helpers = []string{"clang", "lld", "ld.lld", "llvm-link", "opt", "llc", "clang-offload-bundler", "llvm-offload-binary", "clang-offload-packager"}

// tool adds the command of a job that links or packs, and the programs that it runs. The error is a plan.Reason if the job may
// read a file that no other job writes: such files are not in the key.
func (r *run) tool(ctx context.Context, job plan.Job, h *key.Hash) error {
	for _, word := range job.Args[1:] {
		word = r.withoutTemporary(word)
		program, runs := strings.CutPrefix(word, "--linker-path=")
		switch {
		case runs:
			used, err := r.identify(ctx, program)
			if err != nil {
				return plan.Reason(err.Error())
			}
			h.Text(string(used.id[:]))
		case word == "/dev/null", strings.HasSuffix(word, "input=/dev/null"):
		case key.MayNameFile(word):
			return plan.Reason(filepath.Base(job.Args[0]) + " may read a file: " + word)
		}
		h.Text(word)
	}
	if strings.Contains(filepath.Base(job.Args[0]), "linker-wrapper") {
		for _, name := range helpers {
			used, err := r.identify(ctx, filepath.Join(filepath.Dir(job.Args[0]), name))
			switch {
			case errors.Is(err, os.ErrNotExist):
				h.Text("no " + name)
			case err != nil:
				return plan.Reason(err.Error())
			default:
				h.Text(string(used.id[:]))
			}
		}
	}
	return nil
}

// withoutTemporary returns a word with equal names for the files that jobs write.
func (r *run) withoutTemporary(word string) string {
	for i, job := range r.plan.Jobs {
		word = plan.Replace(word, job.Output, fmt.Sprintf("JOB%d", i-r.firstOf(i)))
	}
	return word
}

// firstOf returns the index of the first job of the step that a job is in, so that names do not depend on the number of
// GPUs.
func (r *run) firstOf(i int) int {
	n := 0
	for _, s := range r.steps {
		if i < n+len(s.jobs) {
			return n
		}
		n += len(s.jobs)
	}
	return n
}

// resolve finds the result of a step, or runs it.
func (r *run) resolve(ctx context.Context, s *step) error {
	for _, in := range s.inputs {
		<-in.done
		if in.err != nil {
			return in.err
		}
	}
	base, err := r.base(ctx, s)
	if err != nil {
		return err
	}
	if s.kind() == plan.Pack && !s.final {
		s.digest = cache.Digest{Hash: base} // the file is made if a job needs it
		return nil
	}
	hit, manifest, err := r.lookup(ctx, s, base)
	if err != nil || hit {
		return err
	}
	return r.execute(ctx, s, base, manifest)
}

// manifestKey returns the key of the manifest of a step.
func manifestKey(base [32]byte) [32]byte {
	var h key.Hash
	h.Text("manifest", string(base[:]))
	return h.Key()
}

// listed reports whether the step has a manifest: it compiles a source. Other steps read only the outputs of steps.
func (s *step) listed() bool { return s.form != nil && s.form.Source != "" }

// lookup finds the result of a step in the store.
func (r *run) lookup(ctx context.Context, s *step, base [32]byte) (hit bool, manifest key.Manifest, err error) {
	result := base
	if s.listed() {
		data, err := r.stored(ctx, cache.Action(manifestKey(base)), manifestOutput)
		if err != nil {
			r.warn(err)
		}
		if data == nil {
			s.report.Why = "no earlier compilation with these arguments, this compiler and this source"
			return false, nil, nil
		}
		if manifest, err = key.ParseManifest(data); err != nil {
			r.warn(err)
			return false, nil, nil
		}
		variant, why := manifest.Find(r.files, s.form.Search)
		if fresh, ok := r.opt.Store.(freshener); ok && variant == nil {
			manifest = manifest.Union(r.freshManifest(ctx, fresh, base))
			variant, why = manifest.Find(r.files, s.form.Search)
		}
		if variant == nil {
			s.report.Why = why
			return false, manifest, nil
		}
		result = variant.Key(base)
	}
	s.action = cache.Action(result)
	stored, err := r.opt.Store.Result(ctx, s.action)
	if err != nil {
		r.warn(err)
	}
	if stored == nil {
		s.report.Why = "the result is not in the cache"
		return false, manifest, nil
	}
	var ok bool
	if s.digest, ok = stored.Output(objectOutput); !ok {
		s.report.Why = "the result is incomplete"
		return false, manifest, nil
	}
	if s.form != nil && s.form.Dependencies != "" {
		d, ok := stored.Output(depsOutput)
		if ok {
			s.deps, err = r.opt.Store.Blob(ctx, d)
		}
		if !ok || err != nil {
			s.report.Why = "the result is incomplete"
			return false, manifest, nil
		}
	}
	if s.final {
		if s.output, err = r.opt.Store.Blob(ctx, s.digest); err != nil {
			if !errors.Is(err, cache.ErrMissing) {
				r.warn(err)
			}
			s.output = nil
			s.report.Why = "the output is not in the cache"
			return false, manifest, nil
		}
	}
	s.stderr = stored.Stderr
	s.report.State, s.report.Key = Hit, s.action.Hex()
	return true, manifest, nil
}

// A freshener is a store that several machines share, with copies on this machine that may be older.
type freshener interface {
	Fresh(ctx context.Context, action cache.Digest) (*cache.Result, error)
}

// freshManifest returns the manifest that other machines have stored.
func (r *run) freshManifest(ctx context.Context, store freshener, base [32]byte) key.Manifest {
	result, err := store.Fresh(ctx, cache.Action(manifestKey(base)))
	if result == nil || err != nil {
		return nil
	}
	d, ok := result.Output(manifestOutput)
	if !ok {
		return nil
	}
	data, err := r.opt.Store.Blob(ctx, d)
	if err != nil {
		return nil
	}
	m, err := key.ParseManifest(data)
	if err != nil {
		return nil
	}
	return m
}

// stored returns an output of a stored result, nil if it is not stored.
func (r *run) stored(ctx context.Context, action cache.Digest, name string) ([]byte, error) {
	result, err := r.opt.Store.Result(ctx, action)
	if result == nil || err != nil {
		return nil, err
	}
	d, ok := result.Output(name)
	if !ok {
		return nil, nil
	}
	data, err := r.opt.Store.Blob(ctx, d)
	if errors.Is(err, cache.ErrMissing) {
		err = nil
	}
	return data, err
}

// materialize returns the path of a file with the output of a step.
func (r *run) materialize(ctx context.Context, s *step) (string, error) {
	s.material.Do(func() {
		if s.path != "" {
			return
		}
		if s.kind() == plan.Pack && s.report.State == Unused {
			s.pathErr = r.execute(ctx, s, s.digest.Hash, nil)
			return
		}
		data, err := r.opt.Store.Blob(ctx, s.digest)
		if errors.Is(err, cache.ErrMissing) {
			s.report.Why = "the output is not in the cache"
			s.pathErr = r.again(ctx, s)
			return
		}
		if err != nil {
			s.pathErr = err
			return
		}
		dir, err := r.tempDir()
		if err != nil {
			s.pathErr = err
			return
		}
		s.path = filepath.Join(dir, fmt.Sprintf("%d%s", s.index, filepath.Ext(s.last().Output)))
		s.pathErr = os.WriteFile(s.path, data, 0o666)
	})
	return s.path, s.pathErr
}

// again runs a step whose output the store has lost.
func (r *run) again(ctx context.Context, s *step) error {
	base, err := r.base(ctx, s)
	if err != nil {
		return err
	}
	was := s.digest
	if err := r.execute(ctx, s, base, nil); err != nil {
		return err
	}
	if s.digest != was {
		return fmt.Errorf("two compilations for %s differ", s.report.Target)
	}
	return nil
}

// tempDir returns the directory for temporary files of the call.
func (r *run) tempDir() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.temp == nil {
		dir, err := scratch.New("offload-launch-")
		if err != nil {
			return "", err
		}
		r.temp = dir
	}
	return r.temp.Path, nil
}

// warn keeps the first problem of the cache.
func (r *run) warn(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warning == nil {
		r.warning = err
	}
}

// record returns a record of this machine.
func (r *run) record(kind string, k [32]byte) []byte {
	if r.opt.Local == nil {
		return nil
	}
	return r.opt.Local.Record(kind, k)
}

// putRecord stores a record of this machine.
func (r *run) putRecord(kind string, k [32]byte, data []byte) {
	if r.opt.Local == nil {
		return
	}
	if err := r.opt.Local.PutRecord(kind, k, data); err != nil && r.warning == nil {
		r.warning = err
	}
}

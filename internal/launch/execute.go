package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/launch/depfile"
	"github.com/rules-offload/rules_offload/internal/launch/key"
	"github.com/rules-offload/rules_offload/internal/launch/plan"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// errFailed reports a job that failed. The compiler runs again as it is, and prints the messages.
var errFailed = plan.Reason("a job of the compiler failed")

// execute runs a step and stores its result.
func (r *run) execute(ctx context.Context, s *step, base [32]byte, manifest key.Manifest) error {
	dir, err := r.tempDir()
	if err != nil {
		return err
	}
	rename := map[string]string{}
	for _, in := range s.inputs {
		path, err := r.materialize(ctx, in)
		if err != nil {
			return err
		}
		rename[in.last().Output] = path
	}
	for i, job := range s.jobs {
		rename[job.Output] = filepath.Join(dir, fmt.Sprintf("%d.%d%s", s.index, i, filepath.Ext(job.Output)))
	}
	memory := r.memoryKey(s)
	release, err := r.opt.Slots.Acquire(ctx, r.memoryOf(memory))
	if err != nil {
		return err
	}
	defer release()
	var used int64
	started := time.Now()
	var stderr bytes.Buffer
	o := observed{list: filepath.Join(dir, fmt.Sprintf("%d.d", s.index)), headers: filepath.Join(dir, fmt.Sprintf("%d.h", s.index))}
	for i, job := range s.jobs {
		args := renamed(job.Args, rename)
		if i == 0 && s.listed() {
			args = o.arguments(args, s.form)
		}
		var stdout bytes.Buffer
		var size int64
		command := process.Command{Args: args, Env: r.opt.Env, Dir: r.opt.Dir, Stdout: &stdout, Stderr: &stderr, Responses: dir, MaxMemory: &size}
		if err := command.Run(ctx); err != nil {
			if context.Cause(ctx) != nil {
				return context.Cause(ctx)
			}
			return errFailed
		}
		used = max(used, size)
		if stdout.Len() > 0 {
			return plan.Reason("a job of the compiler printed to standard output")
		}
	}
	if s.kind() == plan.Pack && stderr.Len() > 0 {
		return plan.Reason("the packing of device code printed messages")
	}
	r.keepMemory(memory, used)
	path := rename[s.last().Output]
	output, err := os.ReadFile(path)
	if err != nil {
		return errFailed
	}
	s.path, s.stderr = path, stderr.Bytes()
	s.report.State, s.report.Time = Miss, time.Since(started)
	if s.final {
		s.output = output
	}
	if s.kind() == plan.Pack && !s.final {
		return nil // its content is in the output of the compilation
	}
	s.digest = cache.DigestOf(output)
	return r.store(ctx, s, base, manifest, output, &o, started)
}

// store stores the result of a step that ran.
func (r *run) store(ctx context.Context, s *step, base [32]byte, manifest key.Manifest, output []byte, o *observed, started time.Time) error {
	for _, job := range s.jobs {
		if tool, err := r.identify(ctx, job.Args[0]); err != nil || !tool.unchanged() {
			s.report.Why = "not stored: " + job.Args[0] + " changed during the compilation"
			return nil
		}
	}
	result := &cache.Result{Outputs: []cache.Output{{Name: objectOutput, Digest: s.digest}}, Stderr: s.stderr}
	blobs := [][]byte{output}
	resultKey := base
	var variant *key.Variant
	if s.listed() {
		names, err := o.names(s)
		if err != nil {
			return err
		}
		if s.form.Dependencies != "" {
			s.deps = []byte(strings.Join(names.listed, "\n") + "\n")
			result.Outputs = append(result.Outputs, cache.Output{Name: depsOutput, Digest: cache.DigestOf(s.deps)})
			blobs = append(blobs, s.deps)
			slices.SortFunc(result.Outputs, func(a, b cache.Output) int { return strings.Compare(a.Name, b.Name) })
		}
		observation := key.Observation{Names: names.all, Form: s.form, Started: r.started, FixedTime: hasVariable(r.opt.Env, "SOURCE_DATE_EPOCH")}
		variant, err = observation.Variant(r.files)
		var reason plan.Reason
		if errors.As(err, &reason) || errors.Is(err, key.ErrNew) {
			s.report.Why = "not stored: " + err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		// The source that the key has is the one that was compiled.
		resultKey = variant.Key(base)
	}
	s.action = cache.Action(resultKey)
	s.report.Key = s.action.Hex()
	if err := r.opt.Store.Put(ctx, s.action, result, blobs...); err != nil {
		r.warn(err)
		return nil
	}
	if variant == nil {
		return nil
	}
	data := manifest.Add(*variant).Marshal()
	list := &cache.Result{Outputs: []cache.Output{{Name: manifestOutput, Digest: cache.DigestOf(data)}}}
	if err := r.opt.Store.Put(ctx, cache.Action(manifestKey(base)), list, data); err != nil {
		r.warn(err)
	}
	return nil
}

func hasVariable(env []string, name string) bool {
	return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// renamed returns arguments with other names for files. Targets in dependency files keep their names.
func renamed(args []string, names map[string]string) []string {
	args = slices.Clone(args)
	for i, word := range args[1:] {
		if args[i] == "-MT" {
			continue
		}
		for old, name := range names {
			if plan.Names(word, old) {
				args[i+1] = plan.Replace(word, old, name)
				break
			}
		}
	}
	return args
}

// observed are the files with which a compilation lists what it reads.
type observed struct {
	list    string // its dependency file
	headers string // its list of headers, if the dependency file is without system headers
	both    bool   // whether it has written headers
}

// arguments returns the arguments of a compilation that lists what it reads.
func (o *observed) arguments(args []string, form *key.Form) []string {
	if form.Dependencies == "" {
		extra := []string{"-dependency-file", o.list, "-sys-header-deps"}
		if len(form.Targets) == 0 {
			extra = append(extra, "-MT", "x")
		}
		return insert(args, extra)
	}
	for i, word := range args {
		if word == "-dependency-file" {
			args[i+1] = o.list
		}
	}
	if !form.System {
		o.both = true
		return insert(args, []string{"-header-include-file", o.headers, "-header-include-format=textual", "-header-include-filtering=none"})
	}
	return args
}

// insert inserts arguments after -cc1.
func insert(args, extra []string) []string { return slices.Insert(args, 2, extra...) }

// read are the files that a compilation read.
type read struct {
	listed []string // in its dependency file
	all    []string
}

// names returns the files that a compilation read. The error is a plan.Reason if its dependency file would not be
// written again in the same form.
func (o *observed) names(s *step) (*read, error) {
	data, err := os.ReadFile(o.list)
	if err != nil {
		return nil, plan.Reason("the compiler wrote no dependency file")
	}
	names, err := depfile.Parse(data)
	if err != nil {
		return nil, plan.Reason("the dependency file is not understood")
	}
	if s.form.Phony {
		// The rules of headers have no prerequisites.
		names = slices.Clip(names)
	}
	if s.form.Dependencies != "" && !bytes.Equal(data, key.Depfile(s.form.Targets, names, s.form.Phony)) {
		return nil, plan.Reason("the dependency file has an unknown form")
	}
	r := &read{listed: names, all: slices.Clone(names)}
	if o.both {
		data, err := os.ReadFile(o.headers)
		if err != nil {
			return nil, plan.Reason("the compiler wrote no list of headers")
		}
		for line := range strings.Lines(string(data)) {
			r.all = append(r.all, strings.TrimSpace(line))
		}
	}
	return r, nil
}

// Package bundler implements the command line of clang-offload-bundler. The program behaves as
// this tool when it is called under its name. Package release selects the release of LLVM to
// follow, by default 22.1.8.
package bundler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// run is one call of the tool.
type run struct {
	*command.Call
	*options
	config
	release release.Release // whose behaviour to follow
	ids     []target.ID
}

// Run runs a command line and returns its exit code: 0, or 1 for every failure.
func Run(ctx context.Context, call *command.Call) int {
	follow, err := release.Follow(ctx, call)
	if err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %v\n", call.Name, err)
		return 1
	}
	r := &run{Call: call, options: newOptions(follow), release: follow}
	if exit := r.tool.Parse(call); exit.Done {
		return exit.Code
	}
	if r.help != nil && r.help.Value {
		r.tool.PrintHelp(call)
		return 0
	}
	r.config = r.configure()
	if err := r.act(ctx); err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %s\n", call.Name, r.words(err))
		return 1
	}
	return 0
}

// act runs the operation that the options select.
func (r *run) act(ctx context.Context) error {
	if err := r.merge(); err != nil {
		return err
	}
	if r.list.Value {
		if err := r.checkList(); err != nil {
			return err
		}
		return r.listEntries(ctx)
	}
	if err := r.check(); err != nil {
		return err
	}
	if r.unbundle.Value {
		return r.unbundleFile(ctx)
	}
	return r.bundle(ctx)
}

func (r *run) listEntries(ctx context.Context) error {
	fileType, name := r.readType(), r.input.Value[0]
	if fileType == bundle.ArchiveType {
		if r.isArchive(name) {
			return r.listArchive(ctx, name)
		}
		fileType = bundle.ObjectType
	}
	entries, err := r.Session.List(ctx, engine.ListOptions{Type: fileType, Input: name, Read: r.read()})
	r.print(entries)
	return err
}

// listArchive lists an archive. LLVM 22 does not read its members. Later releases search the
// whole file for bundles, and find members that are bundles, but not bundled objects.
func (r *run) listArchive(ctx context.Context, name string) error {
	if !r.release.ListsMembers {
		r.warn("-list does not read the members of an archive; run offload list")
		if r.talk {
			r.tellRead(images.Bundle{})
		}
		return nil
	}
	entries, err := r.Session.List(ctx, engine.ListOptions{Type: bundle.ArchiveType, Input: name, Read: r.read()})
	if errors.As(err, new(*ar.FormatError)) {
		r.warn("%s", printable.Error(err))
		err = nil
	}
	all := len(entries)
	entries = slices.DeleteFunc(entries, func(e engine.ListedEntry) bool { return e.Form == images.FormSection })
	r.print(entries)
	if len(entries) < all {
		r.warn("-list does not read bundled objects in an archive; run offload list")
	}
	return err
}

// print prints a listing.
func (r *run) print(entries []engine.ListedEntry) {
	var list strings.Builder
	for _, e := range entries {
		fmt.Fprintln(&list, e.ID)
	}
	fmt.Fprint(r.Stdout, list.String())
}

// isArchive reports whether an input is an archive.
func (r *run) isArchive(name string) bool {
	input, err := r.Session.Files().Open(name)
	if err != nil {
		return false
	}
	defer input.Close()
	return ar.Is(input.All().Mapped(guard.Inside))
}

// readType returns the type of the file to list or unbundle.
func (r *run) readType() bundle.FileType {
	t := bundle.FileType(r.fileType.Value)
	if t.Check() == nil || !r.release.AnyTypeOfEmpty {
		return t
	}
	input, err := r.Session.Files().Open(r.input.Value[0])
	if err != nil {
		return t
	}
	defer input.Close()
	if input.All().Len() == 0 {
		return bundle.ObjectType
	}
	return t
}

// warn prints a warning that LLVM's tool does not have.
func (r *run) warn(format string, args ...any) {
	fmt.Fprintf(r.Stderr, "%s: warning: %s\n", r.Name, fmt.Sprintf(format, args...))
}

func (r *run) bundle(ctx context.Context) error {
	opt := engine.BundleOptions{
		Type:   bundle.FileType(r.fileType.Value),
		Output: r.output.Value[0],
		// LLVM divides by it; 0 has the same effect as 1.
		Align:  max(1, uint64(r.align.Value)),
		DryRun: r.printCommands.Value,
	}
	for i, id := range r.ids {
		if meant, err := target.Parse(id.Text); err == nil && meant.TargetID != "" && id.TargetID == "" {
			r.warn("target '%s': the triple has three fields, so %s is its environment and the entry has no processor; write '%s'", id.Text, meant.TargetID, meant)
		}
		opt.Entries = append(opt.Entries, engine.BundleEntry{Target: id, Input: r.input.Value[i]})
	}
	if r.compressed {
		opt.Compress = &engine.Compression{Level: int(r.compressionLevel), Version: r.formatVersion}
	}
	result, err := r.Session.Bundle(ctx, opt)
	if err != nil {
		return err
	}
	if result.Sections && r.compressed {
		r.warn("-compress has no effect: the host input is an object, to which the entries are added as sections")
	}
	if result.Compressed != nil && r.talk {
		r.tellWritten(result)
	}
	if result.Sections && r.printCommands.Value {
		r.printAddSections()
	}
	return nil
}

func (r *run) unbundleFile(ctx context.Context) error {
	opt := engine.UnbundleOptions{
		Type:         r.readType(),
		Input:        r.input.Value[0],
		Requests:     r.requests(),
		Read:         r.read(),
		Rules:        r.rules(),
		Trace:        r.trace(),
		AllowMissing: r.allowMissing.Value,
		Check:        r.checkArchive.Value,
		DryRun:       r.printCommands.Value,
	}
	result, err := r.Session.Unbundle(ctx, opt)
	if err != nil {
		return err
	}
	if r.printCommands.Value {
		for range result.Rewritten {
			r.printRemoveSections(opt.Input)
		}
	}
	return nil
}

// requests returns the targets and their outputs.
func (r *run) requests() (all []engine.UnbundleRequest) {
	for i, id := range r.ids {
		all = append(all, engine.UnbundleRequest{Target: id, Output: r.output.Value[i]})
	}
	return all
}

func (r *run) read() engine.ReadOptions {
	opt := engine.ReadOptions{
		Lenient: r.lenient.Value, Release: r.release.Release,
		Warn: func(err error) { r.warn("%s", printable.Error(err)) },
	}
	if r.talk {
		opt.Stats = r.tellRead
	}
	return opt
}

func (r *run) rules() target.Rules {
	return target.Rules{HIPOpenMP: r.hipOpenMP.Value, Release: r.release.Release}
}

// trace returns the function that explains every comparison, nil if no explanation is
// requested.
func (r *run) trace() func(target.Match) {
	if !slices.Contains(r.debugOnly.Value, "CodeObjectCompatibility") {
		return nil
	}
	return func(m target.Match) { fmt.Fprintln(r.Stderr, m) }
}

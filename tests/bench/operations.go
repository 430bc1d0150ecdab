package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/ar"
)

// bench is what all measurements have in common.
type bench struct {
	dir                 string
	runs                int
	runner              *runner
	peer, ours, offload string // clang-offload-bundler of LLVM, of this project, and offload
	wrapper             string // clang-linker-wrapper of this project
	self                string // this program, which contains the encoder of klauspost/compress
}

// operation is an operation that both programs support.
type operation struct {
	name string
	// want is the target for the ratio of times, and wantMemory the target for the ratio of memory;
	// 0 for no target.
	want, wantMemory float64
	peer, ours       stages
	cached           stages // preparation with our program, which is not measured
	// output is the file whose size is compared, in the directory of each program.
	output string
	// check compares the outputs of the programs.
	check func() error
}

// work is the directory of a corpus with the inputs of the operations.
type work struct {
	*bench
	dir     string
	corpus  string // the directory of the corpus
	targets []string
	raw     int64 // bytes of the plain bundle
}

// Directories of the outputs of the two programs.
const (
	peerDir = "peer"
	oursDir = "ours"
)

// newWork makes bundles of a corpus: plain and foreign with LLVM's tool, own with this project's.
func (b *bench) newWork(ctx context.Context, c *corpus) (*work, error) {
	w := &work{bench: b, dir: filepath.Join(b.dir, "work"), corpus: c.dir(b.dir)}
	if err := os.RemoveAll(w.dir); err != nil {
		return nil, err
	}
	for _, dir := range []string{peerDir, oursDir} {
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o777); err != nil {
			return nil, err
		}
	}
	if c.pick == archive {
		fi, err := os.Stat(w.archive())
		if err != nil {
			return nil, err
		}
		w.raw = fi.Size()
		return w, nil
	}
	var err error
	if c.pick == members {
		err = w.makeArchives(ctx)
	} else {
		err = w.makeBundles("")
	}
	if err != nil {
		return nil, err
	}
	fi, err := os.Stat(filepath.Join(w.dir, "plain"))
	if err != nil {
		return nil, err
	}
	w.raw = fi.Size()
	return w, nil
}

// makeBundles makes bundles of the entries in the corpus, with the given prefix to
// their names.
func (w *work) makeBundles(prefix string) error {
	list, err := os.ReadFile(filepath.Join(w.corpus, "targets"))
	if err != nil {
		return err
	}
	w.targets = strings.Fields(string(list))
	for _, s := range []command{
		w.bundle(w.peer, prefix+"plain"),
		w.bundle(w.peer, prefix+"foreign", "-compress"),
		w.bundle(w.ours, prefix+"own", "-compress"),
	} {
		if _, err := w.runner.run(w.dir, once(s)); err != nil {
			return err
		}
	}
	return nil
}

// makeArchives makes an archive of each form of the members of the corpus, with ten copies of each
// member.
func (w *work) makeArchives(ctx context.Context) error {
	folders, err := filepath.Glob(filepath.Join(w.corpus, "m*"))
	if err != nil {
		return err
	}
	for _, dir := range folders {
		member := *w
		member.corpus = dir
		name := filepath.Base(dir)
		if err := member.makeBundles(name); err != nil {
			return err
		}
	}
	for _, form := range []string{"plain", "foreign", "own"} {
		var list []ar.NewMember
		for copies := range 10 {
			for _, dir := range folders {
				name := filepath.Base(dir)
				data, err := os.ReadFile(w.path(name + form))
				if err != nil {
					return err
				}
				list = append(list, ar.NewMember{Name: fmt.Sprintf("%s-%d.o", name, copies), Data: content.Memory(data)})
			}
		}
		if err := writeArchive(ctx, w.path(form), list); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) archive() string        { return filepath.Join(w.corpus, "archive.a") }
func (w *work) entry(i int) string     { return filepath.Join(w.corpus, entryName(i)) }
func out(program, name string) string  { return filepath.Join(program, name) }
func once(c command) stages            { return stages{{c}} }
func (w *work) path(rel string) string { return filepath.Join(w.dir, rel) }

// bundle is the command that bundles the corpus.
func (w *work) bundle(program, output string, flags ...string) command {
	c := command{program, "-type=bc", "-bundle-align=4096", "-targets=" + strings.Join(w.targets, ","), "-output=" + output}
	for i := range w.targets {
		c = append(c, "-input="+w.entry(i))
	}
	return append(c, flags...)
}

// unbundle is the command that extracts some targets from a bundle.
func (w *work) unbundle(program, input, dir string, targets []int) command {
	var names []string
	c := command{program, "-unbundle", "-type=bc", "-input=" + input}
	for _, i := range targets {
		names = append(names, w.targets[i])
		c = append(c, "-output="+out(dir, entryName(i)))
	}
	return append(c, "-targets="+strings.Join(names, ","))
}

// operations returns the operations to measure with a corpus.
func (w *work) operations(c *corpus) []operation {
	switch c.pick {
	case archive:
		return w.archiveOperations(w.archive(), "")
	case members:
		return slices.Concat(w.archiveOperations("plain", ""), w.archiveOperations("own", ", own compressed"),
			w.archiveOperations("foreign", ", LLVM's compressed"))
	}
	small, large := w.raw < 2<<20, w.raw >= 100<<20
	want := func(usual, ifSmall, ifLarge float64) float64 {
		switch {
		case small:
			return ifSmall
		case large:
			return ifLarge
		}
		return usual
	}
	ops := []operation{{
		name: "bundle", want: want(3, 4, 3), wantMemory: 10, output: "bundle",
		peer: once(w.bundle(w.peer, out(peerDir, "bundle"))), ours: once(w.bundle(w.ours, out(oursDir, "bundle"))),
		check: func() error {
			return sameFiles(w.path(out(peerDir, "bundle")), w.path(out(oursDir, "bundle")))
		},
	}}
	for _, level := range []string{"3", "9"} {
		name, wanted := "compress", want(2.5, 3, 2.5)
		if level != "3" {
			name, wanted = "compress, level "+level, 0
		}
		flags := []string{"-compress", "-compression-level=" + level}
		ops = append(ops, operation{
			name: name, want: wanted, wantMemory: 3, output: "compressed",
			peer:  once(w.bundle(w.peer, out(peerDir, "compressed"), flags...)),
			ours:  once(w.bundle(w.ours, out(oursDir, "compressed"), flags...)),
			check: w.compressed,
		})
	}
	for _, level := range []string{"default", "better"} {
		ops = append(ops, operation{
			name: "compress, compared with klauspost's " + level, output: "compressed",
			peer:  once(command{w.self, klauspostArg, level, "plain", out(peerDir, "compressed")}),
			ours:  once(w.bundle(w.ours, out(oursDir, "compressed"), "-compress")),
			check: w.compressed,
		})
	}
	for _, input := range []struct {
		file, about string
		list        float64
		one, all    float64
	}{
		{"plain", "plain", want(10, 4, 10), want(5, 4, 8), want(2.5, 4, 2.5)},
		{"own", "own compressed", want(10, 4, 30), want(6, 4, 10), want(3, 4, 3)},
		{"foreign", "LLVM's compressed", want(10, 4, 30), want(3, 4, 3), want(3, 4, 3)},
	} {
		ops = append(ops, operation{
			name: "list, " + input.about, want: input.list,
			peer:  once(command{w.peer, "-list", "-type=bc", "-input=" + input.file}),
			ours:  once(command{w.ours, "-list", "-type=bc", "-input=" + input.file}),
			check: func() error { return w.sameList(input.file) },
		})
		// The middle entry: half of the bundle precedes it.
		for _, targets := range [][]int{{len(w.targets) / 2}, w.every()} {
			name, wanted := "unbundle one, "+input.about, input.one
			if len(targets) > 1 {
				name, wanted = "unbundle all, "+input.about, input.all
			}
			ops = append(ops, operation{
				name: name, want: wanted,
				peer:  once(w.unbundle(w.peer, input.file, peerDir, targets)),
				ours:  once(w.unbundle(w.ours, input.file, oursDir, targets)),
				check: func() error { return w.isCorpus(oursDir, targets) },
			})
		}
	}
	if !small {
		ops = append(ops, w.rebuild())
	}
	if large {
		ops = append(ops, w.wrap())
	}
	return ops
}

// wrap measures the parts of a device link that are not compilers and linkers: bundling and
// registration. clang-linker-wrapper gets the entries as linked images.
func (w *work) wrap() operation {
	var images []string
	seen := map[string]bool{}
	for i, t := range w.targets {
		// The header of a code object has its processor, without features.
		processor, _, _ := strings.Cut(t[strings.LastIndexByte(t, '-')+1:], ":")
		if fi, err := os.Stat(w.entry(i)); err != nil || fi.Size() == 0 || seen[processor] {
			continue
		}
		seen[processor] = true
		images = append(images, "--override-image=hip="+w.entry(i))
	}
	wrapper := func(program, output string, flags ...string) command {
		return slices.Concat(command{program, "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/bin/true", "-o", output}, flags, images)
	}
	peer := filepath.Join(filepath.Dir(w.peer), "clang-linker-wrapper")
	return operation{
		name: "register for a link", want: 5, wantMemory: 10,
		peer: once(wrapper(peer, "linked")), ours: once(wrapper(w.wrapper, "linked")),
		check: func() error {
			for _, c := range []command{
				wrapper(peer, out(peerDir, "fatbin"), "--emit-fatbin-only"),
				wrapper(w.wrapper, out(oursDir, "fatbin"), "--emit-fatbin-only"),
			} {
				if _, err := w.runner.run(w.dir, once(c)); err != nil {
					return err
				}
			}
			return sameFiles(w.path(out(peerDir, "fatbin")), w.path(out(oursDir, "fatbin")))
		},
	}
}

// every returns all targets.
func (w *work) every() []int {
	all := make([]int, len(w.targets))
	for i := range all {
		all[i] = i
	}
	return all
}

// groups returns the entries of each part of a bundle: those of a family of processors.
func (w *work) groups() [][]int {
	var groups [][]int
	family := ""
	for i, t := range w.targets {
		if fi, err := os.Stat(w.entry(i)); err != nil || fi.Size() == 0 {
			continue
		}
		if f := ccob.Family(t); groups == nil || f != family {
			groups, family = append(groups, nil), f
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	return groups
}

// rebuild makes the compressed bundle again after a change of the middle entry: LLVM's tool repeats
// everything, the actions of this project only the parts that depend on the entry.
func (w *work) rebuild() operation {
	plan := command{w.offload, "compress-plan", "--align", "4096", "--output", "plan"}
	for i, t := range w.targets {
		plan = append(plan, "--entry", t+"="+w.entry(i))
	}
	assemble := command{w.offload, "assemble", "--plan", "plan", "--output", out(oursDir, "compressed")}
	changed := []command{plan}
	var others []command
	groups := w.groups()
	for k, group := range groups {
		name := fmt.Sprint("part", k)
		part := command{w.offload, "compress-part", "--align", "4096", "--output", name}
		if k+1 < len(groups) {
			part = append(part, "--pad")
		}
		has := false
		for _, i := range group {
			part = append(part, w.entry(i))
			has = has || i == len(w.targets)/2
		}
		if has {
			changed = append(changed, part)
		} else {
			others = append(others, part)
		}
		assemble = append(assemble, name)
	}
	return operation{
		name: "compress again, one entry changed", want: 3, output: "compressed",
		cached: stages{others},
		peer:   once(w.bundle(w.peer, out(peerDir, "compressed"), "-compress")),
		ours:   stages{changed, {assemble}},
		check: func() error {
			if err := sameFiles(w.path("own"), w.path(out(oursDir, "compressed"))); err != nil {
				return err
			}
			return w.compressed()
		},
	}
}

// archiveOperations are the operations with an archive of bundles. about, the property that
// distinguishes the archive, follows their names.
func (w *work) archiveOperations(file, about string) []operation {
	ids := []string{"gfx1030", "gfx1010", "gfx1100", "gfx1101", "gfx1102", "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a"}
	var ops []operation
	for _, n := range []int{1, len(ids)} {
		command := func(program, dir string) stages {
			var names []string
			c := command{program, "-unbundle", "-type=a", "-input=" + file}
			for _, id := range ids[:n] {
				names = append(names, "hipv4-amdgcn-amd-amdhsa--"+id)
				c = append(c, "-output="+out(dir, id+".a"))
			}
			return once(append(c, "-targets="+strings.Join(names, ",")))
		}
		name, wanted := "unbundle archive, one target"+about, 3.0
		if n > 1 {
			name, wanted = "unbundle archive, all targets"+about, 2
		}
		ops = append(ops, operation{
			name: name, want: wanted,
			peer: command(w.peer, peerDir), ours: command(w.ours, oursDir),
			check: func() error {
				for _, id := range ids[:n] {
					if err := sameFiles(w.path(out(peerDir, id+".a")), w.path(out(oursDir, id+".a"))); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	return ops
}

// compressed unbundles our compressed bundle with LLVM's tool.
func (w *work) compressed() error {
	if _, err := w.runner.run(w.dir, once(w.unbundle(w.peer, out(oursDir, "compressed"), peerDir, w.every()))); err != nil {
		return err
	}
	return w.isCorpus(peerDir, w.every())
}

// isCorpus compares unbundled entries with those of the corpus.
func (w *work) isCorpus(dir string, targets []int) error {
	for _, i := range targets {
		if err := sameFiles(w.entry(i), w.path(out(dir, entryName(i)))); err != nil {
			return err
		}
	}
	return nil
}

// sameList compares the listings of both programs.
func (w *work) sameList(input string) error {
	var lists [2][]byte
	for i, program := range []string{w.peer, w.ours} {
		cmd := exec.Command(program, "-list", "-type=bc", "-input="+input)
		cmd.Dir = w.dir
		var err error
		if lists[i], err = cmd.Output(); err != nil {
			return err
		}
	}
	if !bytes.Equal(lists[0], lists[1]) {
		return fmt.Errorf("the lists of %s differ:\n%s%s", input, lists[0], lists[1])
	}
	return nil
}

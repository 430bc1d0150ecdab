package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/bundler"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/linkerwrapper"
	"github.com/rules-offload/rules_offload/internal/cmd/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/offloadwrapper"
	"github.com/rules-offload/rules_offload/internal/cmd/rocobj"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/tests/internal/parsers"
)

// commandLine is a command line that reads a damaged file.
type commandLine struct {
	// format is the format of most of its files.
	format string
	// words are its arguments. DIR is the directory of the files, IN the damaged file, GOOD an
	// undamaged file of the format.
	words string
	// outputs are the files that a success must write; a failure must write none. nil
	// means any files in the directory "out".
	outputs []string
}

// commandLines are those of the verbs and the drop-ins.
var commandLines = []commandLine{
	{"code", "offload bundle --output o1 --compress --entry gfx906=IN --entry gfx90a=GOOD", []string{"o1"}},
	{"bundle", "offload unbundle --input IN --entry gfx906=o1 --entry gfx90a:xnack+=o2", []string{"o1", "o2"}},
	{"text", "offload unbundle --type ii --allow-missing --input IN --entry gfx906=o1", []string{"o1"}},
	{"bundle", "offload list --json IN", []string{}},
	{"archive", "offload list --type a IN", []string{}},
	{"object", "offload inspect IN", []string{}},
	{"code", "offload inspect --kernels --json IN", []string{}},
	{"library", "offload inspect --sections IN", []string{}},
	{"library", "offload inspect --summary IN", []string{}},
	{"library", "offload report --html o1 --markdown o2 --json o3 --base GOOD IN", []string{"o1", "o2", "o3"}},
	{"code", "offload diff GOOD IN", []string{}},
	{"object", "offload extract --output-dir out IN", nil},
	{"package", "offload extract --image arch=gfx906,file=o1 IN", []string{"o1"}},
	{"bundle", "offload archive --output o1 IN GOOD", []string{"o1"}},
	{"archive", "offload unbundle-archive --allow-missing --input IN --entry gfx906=o1", []string{"o1"}},
	{"bundle", "offload check --input IN", []string{}},
	{"bundle", "offload check --covers gfx90a:xnack+ IN", []string{}},
	{"code", "offload pack --compress --format-version 3 --output o1 --image file=IN,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=hip", []string{"o1"}},
	{"object", "offload embed --input IN --output o1 PACKAGE", []string{"o1"}},
	{"package", "offload embed --input HOST --output o1 IN", []string{"o1"}},
	{"code", "offload cc-data --symbol data --triple x86_64-unknown-linux-gnu --output o1 --header o2 IN", []string{"o1", "o2"}},
	{"bundle", "offload register --check --kind hip --triple x86_64-unknown-linux-gnu --output o1 IN", []string{"o1"}},
	{"package", "offload register --kind openmp --triple x86_64-unknown-linux-gnu --output o1 IN", []string{"o1"}},
	{"object", "offload link --plan --json --triple x86_64-unknown-linux-gnu IN GOOD", []string{}},
	{"object", "offload isolate --input IN --output o1 --suffix x", []string{"o1"}},
	{"code", "offload split-debug --input IN --output o1 --debug-info o2", []string{"o1", "o2"}},
	{"bitcode", "offload check-device-deps --target //app --library //math=IN --output o1 GOOD", []string{"o1"}},
	{"library", "offload prune --ignore-missing --input IN --output o1 --keep gfx906", []string{"o1"}},
	{"bundle", "offload prune --input IN --output o1 --compress", []string{"o1"}},
	{"archive", "offload prune --input IN --output o1 --decompress", []string{"o1"}},
	{"kpack", "offload kpack list IN", []string{}},
	{"kpack", "offload kpack extract --output-dir out --input IN", nil},
	{"library", "offload kpack verify IN", []string{}},
	{"library", "offload kpack split --input IN --output o1 --kpack-dir out --group g", nil},
	{"split", "offload kpack merge --input IN --output o1 KPACK1 KPACK2", []string{"o1"}},
	{"kpack", "offload kpack merge --input SPLIT --output o1 IN KPACK1 KPACK2", []string{"o1"}},
	{"wheel", "offload wheel split --output-dir out " + wheelName, nil},
	{"wheel", "offload wheel prune --ignore-missing --keep gfx906 --output-dir out " + wheelName, nil},
	{"host wheel", "offload wheel merge --output-dir out " + wheelName + " " + deviceWheel, nil},
	{"part", "offload compress-part --output o1 IN GOOD", []string{"o1"}},
	{"code", "offload compress-plan --output o1 --entry gfx906=IN --entry gfx90a=GOOD", []string{"o1"}},
	{"part", "offload assemble --plan PLAN --output o1 IN PART2", []string{"o1"}},
	{"plan", "offload assemble --plan IN --output o1 PART1 PART2", []string{"o1"}},
	{"text", "offload require --triple x86_64-unknown-linux-gnu --output o1 name", []string{"o1"}},
	{"bundle", "clang-offload-bundler -type=bc -unbundle -input=IN -output=o1 -targets=hip-amdgcn-amd-amdhsa--gfx906", []string{"o1"}},
	{"bundle", "clang-offload-bundler -type=o -list -input=IN", []string{}},
	{"archive", "clang-offload-bundler -type=a -unbundle -allow-missing-bundles -input=IN -output=o1 -targets=openmp-amdgcn-amd-amdhsa--gfx906", []string{"o1"}},
	{"flags", "clang-offload-bundler @DIR/IN", nil},
	{"package", "llvm-offload-binary IN --image=file=o1,arch=gfx906", nil},
	{"object", "llvm-offload-wrapper --kind=hip --triple=x86_64-unknown-linux-gnu -o o1 IN", []string{"o1"}},
	{"object", "clang-linker-wrapper --dry-run --host-triple=x86_64-unknown-linux-gnu --linker-path=ld.lld -o o1 IN GOOD", []string{}},
	{"library", "roc-obj-ls -v IN", []string{}},
	{"bundle", "roc-obj-extract -o out file://IN#offset=0&size=8", nil},
}

// Wheels must have valid names: those of a wheel and of its part for a GPU.
const (
	wheelName   = "demo-1.0-py3-none-any.whl"
	deviceWheel = "demo_device_gfx906-1.0-py3-none-any.whl"
)

// write writes an input under its names in the command line, and an undamaged file of the format.
func (l *commandLine) write(dir string, input, good []byte) error {
	files := map[string][]byte{"IN": input, "GOOD": good}
	if strings.Contains(l.words, wheelName) {
		files[wheelName] = input
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// withoutFile are the verbs that read no device code themselves.
var withoutFile = []string{"completion", "man", "compile", "link-device", "launch", "cache stats", "cache clear", "cache trim", "cache verify", "on-gpu"}

// tools are the entry functions of the tools that the program contains.
var tools = map[string]func(context.Context, *command.Call) int{
	"offload": verb.Run, "clang-offload-bundler": bundler.Run, "llvm-offload-binary": offloadbinary.Run,
	"llvm-offload-wrapper": offloadwrapper.Run, "clang-linker-wrapper": linkerwrapper.Run,
	"roc-obj-ls": rocobj.List, "roc-obj-extract": rocobj.Extract,
}

// anyCode reports whether a tool may return any exit code: those of ROCm's tools are error codes of
// the system and counts of errors.
func anyCode(tool string) bool { return strings.HasPrefix(tool, "roc-obj-") }

// verbs runs every verb on damaged files of every format, in this process.
func verbs(ctx context.Context, c *campaign) error {
	r, err := newVerbRun(c)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		line := &commandLines[r.m.Below(len(commandLines))]
		seeds := r.seeds[line.format]
		if r.m.Below(8) == 0 {
			seeds = r.all
		}
		input := bytes.Clone(r.m.Next(seeds))
		done := make(chan error, 1)
		go func() {
			_, err := r.once(ctx, line, input)
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-time.After(longest):
			c.fault("%s runs for more than %s; its input is %s", line.words, longest, c.keepData(input))
			return nil // the goroutine cannot be ended
		}
	}
	return nil
}

// newVerbRun prepares the files of a run.
func newVerbRun(c *campaign) (*verbRun, error) {
	roots, err := moduleRoots()
	if err != nil {
		return nil, err
	}
	seeds, err := parsers.Files(roots...)
	if err != nil {
		return nil, err
	}
	r := &verbRun{c: c, m: parsers.NewMutator(c.seed), dir: c.path("verbs"), seeds: seeds}
	for _, list := range seeds {
		r.all = append(r.all, list...)
	}
	slices.SortFunc(r.all, func(a, b *parsers.Seed) int { return bytes.Compare(a.Data(), b.Data()) })
	if err := os.MkdirAll(filepath.Join(r.dir, "out"), 0o777); err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"BUNDLE": seeds["bundle"][0].Data(), "PACKAGE": seeds["package"][0].Data(), "HOST": seeds["object"][0].Data(),
		"PLAN": seeds["plan"][0].Data(), "PART1": seeds["part"][0].Data(), "PART2": seeds["part"][2].Data(),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), data, 0o666); err != nil {
			return nil, err
		}
	}
	return r, r.split()
}

// split splits a library, for the verbs that read its parts.
func (r *verbRun) split() error {
	split := &commandLine{words: "offload kpack split --input IN --output o1 --kpack-dir out --group g"}
	for _, library := range r.seeds["library"] {
		if err := os.WriteFile(filepath.Join(r.dir, "IN"), library.Data(), 0o666); err != nil {
			return err
		}
		call, _ := r.newCall(split)
		if status, _ := r.call(context.Background(), verb.Run, call); status != 0 {
			continue
		}
		archives, err := filepath.Glob(filepath.Join(r.dir, "out", "*"))
		if err != nil || len(archives) != 2 {
			return fmt.Errorf("%s: found the archives %q, %v, expected two", split.words, archives, err)
		}
		for from, to := range map[string]string{filepath.Join(r.dir, "o1"): "SPLIT", archives[0]: "KPACK1", archives[1]: "KPACK2"} {
			data, err := os.ReadFile(from)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(r.dir, to), data, 0o666); err != nil {
				return err
			}
			format := "kpack"
			if to == "SPLIT" {
				format = "split"
			}
			r.seeds[format] = append(r.seeds[format], parsers.NewSeed(data))
		}
		if err := r.clean(nil); err != nil {
			return err
		}
		return r.splitWheel(library.Data())
	}
	return fmt.Errorf("%s: no library can be split", split.words)
}

// splitWheel makes a wheel of a library and splits it.
func (r *verbRun) splitWheel(library []byte) error {
	wheel, err := wheelOf(library)
	if err != nil {
		return err
	}
	r.seeds["wheel"] = append(r.seeds["wheel"], parsers.NewSeed(wheel))
	split := &commandLine{words: "offload wheel split --output-dir out " + wheelName}
	if err := split.write(r.dir, wheel, wheel); err != nil {
		return err
	}
	call, printed := r.newCall(split)
	if status, _ := r.call(context.Background(), verb.Run, call); status != 0 {
		return fmt.Errorf("%s: %s", split.words, printed[1].String())
	}
	host, err := os.ReadFile(filepath.Join(r.dir, "out", wheelName))
	if err != nil {
		return err
	}
	r.seeds["host wheel"] = append(r.seeds["host wheel"], parsers.NewSeed(host))
	if err := os.Rename(filepath.Join(r.dir, "out", deviceWheel), filepath.Join(r.dir, deviceWheel)); err != nil {
		return err
	}
	return r.clean(nil)
}

// wheelOf returns a wheel with a library.
func wheelOf(library []byte) ([]byte, error) {
	const info = "demo-1.0.dist-info/"
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	record := ""
	for _, file := range [][2]string{
		{"demo/lib/libdemo.so", string(library)},
		{info + "METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: campaign\nRoot-Is-Purelib: false\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		name, text := file[0], file[1]
		sum := sha256.Sum256([]byte(text))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
		if name == info+"RECORD" {
			record = record[:strings.LastIndex(record, name)] + name + ",,\n"
			text = record
		}
		out, err := w.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(out, text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// newCall returns a call of a command line, and what it prints.
func (r *verbRun) newCall(line *commandLine) (*command.Call, *[2]bytes.Buffer) {
	// LLVM's tools look for response files in the working directory of the process.
	words := strings.Fields(strings.ReplaceAll(line.words, "DIR/", r.dir+"/"))
	printed := new([2]bytes.Buffer)
	call := &command.Call{
		Name: words[0], Args: words[1:], Stdout: &printed[0], Stderr: &printed[1],
		LookupEnv: func(string) (string, bool) { return "", false },
		Session:   engine.New(engine.Config{Dir: r.dir, TempDir: r.dir, Budget: budget.New(2, 256<<20)}),
	}
	call.WithMemory = func(limit int64) (*engine.Session, error) { return call.Session, nil }
	return call, printed
}

// verbRun is a run of the part verbs.
type verbRun struct {
	c     *campaign
	m     *parsers.Mutator
	dir   string
	seeds map[string][]*parsers.Seed
	all   []*parsers.Seed
}

// once runs one command line with an input and returns its exit status. Its error is a
// failure of the campaign.
func (r *verbRun) once(ctx context.Context, line *commandLine, input []byte) (int, error) {
	good := r.seeds[line.format][r.m.Below(len(r.seeds[line.format]))].Data()
	if err := line.write(r.dir, input, good); err != nil {
		return 0, err
	}
	call, printed := r.newCall(line)
	stdout, stderr := &printed[0], &printed[1]
	status, panicked := r.call(ctx, tools[call.Name], call)
	r.c.runs.Add(1)
	if ctx.Err() != nil {
		return 0, r.clean(nil)
	}
	var faults []string
	note := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	switch {
	case panicked != "":
		note("%s", panicked)
	case strings.Contains(stderr.String(), "internal error"):
		note("%s", stderr.String())
	case status != 0 && status != 1 && !anyCode(call.Name):
		note("exit status %d: %.500s", status, stderr.String())
	case status == 1 && stderr.Len() == 0 && stdout.Len() == 0:
		note("exit status 1 and no message")
	}
	if now, err := os.ReadFile(filepath.Join(r.dir, "IN")); err != nil || !bytes.Equal(now, input) {
		note("the input changed: %v", err)
	}
	err := r.clean(func(name string) {
		switch {
		case status != 0:
			note("exit status %d and the file %s: %.300s", status, name, stderr.String())
		case line.outputs != nil && !slices.Contains(line.outputs, name):
			note("the file %s is left", name)
		case strings.HasPrefix(filepath.Base(name), "."):
			note("the temporary file %s is left", name)
		}
	}, func(count int) {
		if status == 0 && line.outputs != nil && count != len(line.outputs) {
			note("exit status 0 and %d of %d outputs", count, len(line.outputs))
		}
	})
	if len(faults) > 0 {
		kept := r.c.keepData(input)
		r.c.fault("%s: %s; its input is %s", line.words, strings.Join(faults, "; "), kept)
	}
	return status, err
}

// call runs a tool and returns its exit status, or its panic.
func (r *verbRun) call(ctx context.Context, tool func(context.Context, *command.Call) int, call *command.Call) (status int, panicked string) {
	defer func() {
		if v := recover(); v != nil {
			panicked = fmt.Sprintf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return tool(call.Session.Context(ctx), call), ""
}

// clean removes the outputs of a command line. It calls found, if not nil, with each file, and then
// counted with their number.
func (r *verbRun) clean(found func(name string), counted ...func(int)) error {
	keep := []string{"IN", "GOOD", "BUNDLE", "PACKAGE", "HOST", "SPLIT", "KPACK1", "KPACK2", "PLAN", "PART1", "PART2", wheelName, deviceWheel}
	count := 0
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(r.dir, path)
		if err != nil || e.IsDir() || slices.Contains(keep, name) {
			return err
		}
		if count++; found != nil {
			found(name)
		}
		return os.Remove(path)
	})
	if err != nil {
		return err
	}
	for _, f := range counted {
		f(count)
	}
	out := filepath.Join(r.dir, "out")
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Mkdir(out, 0o777)
}

// keepData writes the input of a failure to the directory of the flag -faults.
func (c *campaign) keepData(data []byte) string {
	f, err := os.CreateTemp(*faultsDir, "input-")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err.Error()
	}
	return f.Name()
}

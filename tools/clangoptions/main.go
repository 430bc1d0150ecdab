// Clangoptions writes rules/private/clang_options.bzl: which options of clang take values in separate words, and which
// options of processors are for AMD's GPUs. With compilers of GCC, it writes rules/private/gcc_options.bzl: which of their
// options clang rejects. It asks the compilers for their options, and tries each of them.
//
//	tools/offline/run go run ./tools/clangoptions /usr/lib/llvm-22/bin/clang
//	tools/offline/run go run ./tools/clangoptions /usr/lib/llvm-22/bin/clang gcc aarch64-linux-gnu-gcc
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	output    = "rules/private/clang_options.bzl"
	outputGCC = "rules/private/gcc_options.bzl"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: clangoptions CLANG [GCC]...")
		os.Exit(2)
	}
	write, name := generate, output
	if gcc := os.Args[2:]; len(gcc) > 0 {
		write, name = func(clang string) ([]byte, error) { return generateGCC(clang, gcc) }, outputGCC
	}
	text, err := write(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.FromSlash(name), text, 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clangoptions:", err)
		os.Exit(1)
	}
}

// option is one of clang's options.
type option struct {
	name   string
	help   string
	values int  // the words after it
	prefix bool // whether more text follows the name, before these words
	amdgpu bool // whether it is for AMD's GPUs
}

// generate returns the table of a clang.
func generate(clang string) ([]byte, error) {
	options, err := list(clang)
	if err != nil {
		return nil, err
	}
	if err := each(options, func(o *option) error { return try(clang, o) }); err != nil {
		return nil, err
	}
	values, prefixes := map[string]int{}, map[string]int{}
	var amdgpu []string
	for _, o := range options {
		switch {
		case o.values > 0 && o.prefix:
			prefixes[o.name] = o.values
		case o.values > 0:
			values[o.name] = o.values
		}
		if o.amdgpu {
			amdgpu = append(amdgpu, o.name)
		}
	}
	// Of -Xarch_ and -Xarch_host, one is enough.
	for prefix := range prefixes {
		for _, of := range []map[string]int{values, prefixes} {
			for name := range of {
				if name != prefix && strings.HasPrefix(name, prefix) {
					delete(of, name)
				}
			}
		}
	}
	if len(values) < 50 || len(prefixes) == 0 || len(amdgpu) == 0 {
		return nil, fmt.Errorf("%s: found %d options with values, %d prefixes of such options and %d options of AMD's GPUs, expected more of each", clang, len(values), len(prefixes), len(amdgpu))
	}
	var out bytes.Buffer
	out.WriteString("\"\"\"Options of clang. Written by `go run ./tools/clangoptions`; do not edit.\"\"\"\n")
	out.WriteString("\n# Options with values in the following words, and how many.\n")
	dict(&out, "VALUES", values)
	out.WriteString("\n# Prefixes of such options. Each is followed by more text, then by the values.\n")
	dict(&out, "VALUES_AFTER_PREFIX", prefixes)
	out.WriteString("\n# Options that begin with -m and are for AMD's GPUs, or for the language in all compilations. Those that end with = have a value.\nOF_AMDGPU = [\n")
	for _, name := range amdgpu {
		fmt.Fprintf(&out, "    %q,\n", name)
	}
	out.WriteString("]\n")
	return out.Bytes(), nil
}

func dict(out *bytes.Buffer, name string, values map[string]int) {
	fmt.Fprintf(out, "%s = {\n", name)
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(out, "    %q: %d,\n", key, values[key])
	}
	out.WriteString("}\n")
}

// names matches options in the tables of clang. Warnings, remarks and options with a value in the same word are of no interest,
// except those for processors.
var names = regexp.MustCompile(`\x00(--?[A-Za-z][A-Za-z0-9_+.-]*=?)`)

// list returns what can be an option, from the files of clang.
func list(clang string) ([]*option, error) {
	path, err := filepath.EvalSymlinks(clang)
	if err != nil {
		return nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(filepath.Dir(path), "..", "lib", "libclang-cpp.so*"))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, file := range append(libraries, path) {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range names.FindAllSubmatch(data, -1) {
			name := string(m[1])
			if len(name) < 40 && !regexp.MustCompile(`^-[WR][a-z]|^--?fno-|^--?[^mX-].*=$`).MatchString(name) {
				found[name] = true
			}
		}
	}
	// The tables have no entry of their own for names that other names end with.
	for c := 'A'; c <= 'z'; c++ {
		found["-"+string(c)] = true
	}
	completions, err := exec.Command(clang, "--autocomplete=-m").Output()
	if err != nil {
		return nil, err
	}
	help := map[string]string{}
	for line := range strings.Lines(string(completions)) {
		name, text, _ := strings.Cut(line, "\t")
		help[name] = text
	}
	options := make([]*option, 0, len(found))
	for name := range found {
		options = append(options, &option{name: name, help: help[name]})
	}
	slices.SortFunc(options, func(a, b *option) int { return strings.Compare(a.name, b.name) })
	return options, nil
}

// each calls a function for all options, several at once.
func each(options []*option, fn func(*option) error) error {
	work := make(chan *option)
	errs := make([]error, runtime.NumCPU())
	var wait sync.WaitGroup
	for i := range errs {
		wait.Add(1)
		// unguarded: it reads no input
		go func() {
			defer wait.Done()
			for o := range work {
				if err := fn(o); err != nil {
					errs[i] = err
				}
			}
		}()
	}
	for _, o := range options {
		work <- o
	}
	close(work)
	wait.Wait()
	return errors.Join(errs...)
}

// missing is clang's error about an option that is the last word of a command line.
var missing = regexp.MustCompile(`argument to '(.*)' is missing \(expected (\d+) values?\)`)

// try sets the fields of an option.
func try(clang string, o *option) error {
	var err error
	if o.values, err = expected(clang, o.name); err != nil {
		return err
	}
	if o.values > 0 || strings.HasSuffix(o.name, "=") {
		// An option can have its value in the same word or in the next one. If it has both, each is a different value.
		values, err := expected(clang, o.name+"x")
		if err != nil {
			return err
		}
		if values > 0 {
			o.values, o.prefix = values, true
		}
	}
	if strings.HasPrefix(o.name, "-m") && o.values == 0 {
		o.amdgpu = isOfAMDGPU(clang, o)
	}
	return nil
}

// expected returns how many words clang expects after an option.
func expected(clang, word string) (int, error) {
	text, err := messages(clang, word)
	if err != nil {
		return 0, err
	}
	if m := missing.FindStringSubmatch(text); m != nil && m[1] == word {
		return strconv.Atoi(m[2])
	}
	return 0, nil
}

// isOfAMDGPU reports whether an option is for AMD's GPUs: if its help says so, if CPUs do not have it, or if it is another name
// of an option of the language, which all targets have.
func isOfAMDGPU(clang string, o *option) bool {
	name := o.name
	gpu := []string{"--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib"}
	if !known(clang, name, gpu...) {
		return false
	}
	if strings.Contains(o.help, "AMDGPU") {
		return true
	}
	for _, triple := range []string{"x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"} {
		if known(clang, name, "--target="+triple) {
			return isOfLanguage(clang, name, gpu)
		}
	}
	return true
}

// isOfLanguage reports whether the compiler gets an option as one of the language, such as -fatomic-ignore-denormal-mode.
func isOfLanguage(clang, name string, flags []string) bool {
	without, err := compilerWords(clang, flags)
	if err != nil {
		return false
	}
	with, err := compilerWords(clang, append(slices.Clip(flags), name))
	if err != nil {
		return false
	}
	added := 0
	for _, word := range with {
		if slices.Contains(without, word) {
			continue
		}
		if !strings.HasPrefix(word, "-f") {
			return false
		}
		added++
	}
	return added > 0
}

// compilerWords returns the command line of the compiler that the driver would call.
func compilerWords(clang string, flags []string) ([]string, error) {
	text, err := messages(clang, append(slices.Clip(flags), "-###", "-x", "c", "-c", os.DevNull, "-o", os.DevNull)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"-cc1"`) {
			return strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `"`, ""), " "), nil
		}
	}
	return nil, fmt.Errorf("%s %s: no call of the compiler", clang, strings.Join(flags, " "))
}

// known reports whether clang takes an option in compilations with some flags. The option can lack its value, or another
// option that it requires.
func known(clang, name string, flags ...string) bool {
	text, err := messages(clang, append(slices.Clip(flags), name, "-x", "c", "-c", os.DevNull, "-o", os.DevNull)...)
	if err != nil {
		return false
	}
	for _, message := range []string{"unknown argument", "unsupported option", "argument unused", "unrecognized command"} {
		if strings.Contains(text, message) {
			return false
		}
	}
	return true
}

// messages returns what clang writes to standard error, whatever its exit code.
func messages(clang string, args ...string) (string, error) {
	cmd := exec.Command(clang, args...)
	cmd.Stdin = nil
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", err
	}
	return stderr.String(), nil
}

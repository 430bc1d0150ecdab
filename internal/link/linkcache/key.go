package linkcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/link/process"
)

// A Link is a device link whose result can be cached.
type Link struct {
	// Key is the hash of everything that the result depends on.
	Key Key

	read []used
}

// Files returns the paths of the files that the key covers, without symbolic links for programs and
// their libraries.
func (l *Link) Files() (names []string) {
	for _, file := range l.read {
		names = append(names, file.name)
	}
	return names
}

// Unchanged reports whether all files that the key covers are still the same. Call it after the
// link and before [Store.Put].
func (l *Link) Unchanged() bool {
	return !slices.ContainsFunc(l.read, func(file used) bool { return !file.unchanged() })
}

// Identify returns the key of a device link: the hash of the content of its inputs and of all files
// that its commands or its inputs name, of the libraries that it searches, of the commands that clang runs
// for it, and of the programs of these with their shared libraries. It runs clang with -### to list the
// commands. memory, if not nil, remembers digests of programs.
//
// It returns nil for a link that cannot be cached: clang cannot list its commands, it writes other
// files than its image, or it may read a file that Identify cannot find.
func Identify(ctx context.Context, link process.Command, inputs []string, output string, memory Memory) (*Link, error) {
	if uncacheable(link.Args) || loaderChanged(link.Env) {
		return nil, nil
	}
	var printed bytes.Buffer
	list := link
	list.Args = append([]string{link.Args[0], "-###"}, link.Args[1:]...)
	list.Stdout, list.Stderr = nil, &printed
	var exit *process.ExitError
	if err := list.Run(ctx); errors.As(err, &exit) {
		return nil, nil // the link reports the error
	} else if err != nil {
		return nil, err
	}
	k := keyer{
		ctx: ctx, link: link, memory: memory, hash: newHasher(),
		temporary: map[string]bool{output: true}, searched: map[string]bool{},
	}
	k.hash.text("device link 3")
	// The names of these files differ in each call.
	names := []string{output, "OUTPUT"}
	for i, input := range inputs {
		names = append(names, input, fmt.Sprintf("INPUT%d", i))
		k.temporary[input] = true
	}
	k.rename = strings.NewReplacer(names...)
	for _, input := range inputs {
		if err := k.linked(fmt.Sprintf("input %d", len(k.read)), k.path(input)); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	k.environment()
	if err := k.program(link.Args[0]); err != nil {
		return nil, context.Cause(ctx)
	}
	for line := range strings.Lines(printed.String()) {
		words := commandWords(line)
		if words == nil {
			k.hash.text(line) // the version and the directory of clang
			continue
		}
		if err := k.command(words); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return &Link{Key: k.hash.key(), read: k.read}, nil
}

// errUnknown reports a file whose influence on the link is unknown.
var errUnknown = errors.New("cannot be hashed")

// variables are the prefixes of environment variables that change the results of compilers and
// linkers without a change of the commands that clang lists.
var variables = []string{
	"LD_", "LLD_", "LLVM_", "CLANG_", "CCC_", "HIP_", "ROCM_", "CUDA_", "NVLINK_", "PTXAS_", "NVCC_", "GLIBC_TUNABLES=",
	"LIBRARY_PATH=", "COMPILER_PATH=", "SOURCE_DATE_EPOCH=", "ZERO_AR_DATE=", "LANG=", "LANGUAGE=", "LC_",
}

// loaderChanged reports whether a variable in the environment loads additional libraries into programs,
// or makes the linker write other files.
func loaderChanged(env []string) bool {
	return slices.ContainsFunc(env, func(variable string) bool {
		return strings.HasPrefix(variable, "LD_PRELOAD=") || strings.HasPrefix(variable, "LD_AUDIT=") || strings.HasPrefix(variable, "LLD_REPRODUCE=")
	})
}

// uncacheableOptions are the prefixes of options, without their dashes, with which a link writes other
// files, prints measurements, loads code, or reads files that only another file names.
var uncacheableOptions = []string{
	"save-temps", "ftime-trace", "ftime-report", "gsplit-dwarf", "fsave-optimization-record", "foptimization-record", "fproc-stat-report",
	"Map", "MF", "cref", "dependency-file", "time-trace", "print-", "trace", "verbose", "why-extract", "why-live", "reproduce", "stats",
	"out-implib", "lto-obj-path", "obj-path", "opt-remarks-filename", "thinlto-", "dwo_dir", "dwo-dir",
	"load", "fplugin", "fpass-plugin",
	"T", "script", "default-script", "dT", "remap-inputs-file", "chroot", "format", "just-symbols", "config",
}

// uncacheableLetters are such options of one letter.
var uncacheableLetters = []string{"M", "t", "b", "R"}

// uncacheable reports whether a command has an option of uncacheableOptions or a response file.
func uncacheable(words []string) bool {
	plugin := false // whether the word is an option of the LTO plugin, without dashes
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") { // of -Wl
			if strings.HasPrefix(part, "@") || isUncacheable(part, plugin) {
				return true
			}
		}
		plugin = word == "-plugin-opt" || word == "--plugin-opt"
	}
	return false
}

// isUncacheable reports whether a word is an option of uncacheableOptions.
func isUncacheable(word string, plugin bool) bool {
	name := strings.TrimLeft(word, "-")
	if name == word && !plugin {
		return false
	}
	for _, prefix := range []string{"plugin-opt=", "mllvm="} {
		name = strings.TrimLeft(strings.TrimPrefix(name, prefix), "-")
	}
	return slices.Contains(uncacheableLetters, name) || slices.ContainsFunc(uncacheableOptions, func(option string) bool { return strings.HasPrefix(name, option) })
}

// keyer computes the key of a link.
type keyer struct {
	ctx       context.Context
	link      process.Command
	hash      hasher
	rename    *strings.Replacer
	memory    Memory
	temporary map[string]bool // inputs and output
	read      []used
	searched  map[string]bool // inputs whose content was searched for names of files
	libraries []string        // that inputs name
}

// path returns the path of a file that a command names.
func (k *keyer) path(name string) string {
	if k.link.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(k.link.Dir, name)
}

// environment adds the variables that change results.
func (k *keyer) environment() {
	for _, variable := range k.link.Env {
		if slices.ContainsFunc(variables, func(prefix string) bool { return strings.HasPrefix(variable, prefix) }) {
			k.hash.text(variable)
		}
	}
}

// command adds a command of clang.
func (k *keyer) command(words []string) error {
	// The files that other linkers read are unknown.
	tool := filepath.Base(words[0])
	others, known := runBy(strings.TrimRight(tool, "-0123456789."))
	if !known || uncacheable(words) || k.intermediate(words) {
		return errUnknown
	}
	for _, word := range words {
		k.hash.text(k.rename.Replace(word))
	}
	if err := k.program(words[0]); err != nil {
		return err
	}
	for _, name := range others {
		k.helper(name, words)
	}
	return k.files(words[1:])
}

// runBy returns the programs that a linker of device code runs, and reports whether its inputs are
// known.
func runBy(linker string) (programs []string, known bool) {
	switch linker {
	case "ld.lld", "lld":
		return nil, true
	case "clang-nvlink-wrapper":
		return []string{"ptxas", "nvlink", "fatbinary", "clang"}, true
	}
	return nil, false
}

// helper adds a program that a linker runs, in all directories in which it can be.
func (k *keyer) helper(name string, words []string) {
	dirs := []string{filepath.Dir(words[0])}
	for _, word := range words {
		if dir, ok := strings.CutPrefix(word, "--cuda-path="); ok {
			dirs = append(dirs, filepath.Join(dir, "bin"))
		}
	}
	for _, variable := range k.link.Env {
		if path, ok := strings.CutPrefix(variable, "PATH="); ok {
			dirs = append(dirs, filepath.SplitList(path)...)
		}
	}
	for _, dir := range dirs {
		if err := k.program(filepath.Join(dir, name)); err != nil {
			k.hash.text("no program")
		}
	}
}

// intermediate reports whether a command writes a temporary file for another command. Such files
// have random names.
func (k *keyer) intermediate(words []string) bool {
	for i, word := range words[:len(words)-1] {
		if word == "-o" && !k.temporary[words[i+1]] {
			return true
		}
	}
	return false
}

// commandWords returns the words of a command that clang -### prints, or nil for another line. Each
// word is in quotes, with a backslash before quotes and backslashes.
func commandWords(line string) (words []string) {
	if !strings.HasPrefix(line, ` "`) {
		return nil
	}
	var word []byte
	within := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"' && within:
			words, word, within = append(words, string(word)), word[:0], false
		case c == '"':
			within = true
		case c == '\\' && within && i+1 < len(line):
			i++
			word = append(word, line[i])
		case within:
			word = append(word, c)
		}
	}
	return words
}

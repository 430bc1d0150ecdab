// Package plan reads the jobs that a clang driver lists with -###, for a compilation of one source: device
// compilations, device links, packing and the host compilation, with the files that they pass to each other.
package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Reason says why a command is not understood. It is then run as it is.
type Reason string

// Error returns the reason.
func (r Reason) Error() string { return string(r) }

// Kind is what a job does.
type Kind int

// Kinds of jobs.
const (
	Compile Kind = iota // clang -cc1, for a device or for the host
	Link                // a linker, for a device
	Pack                // puts device images into one file
)

// A Job is a command that the driver runs.
type Job struct {
	Kind Kind
	Args []string
	// Output is the file that the job writes, as Args name it.
	Output string
	// Inputs are the jobs whose outputs the job reads.
	Inputs []int
	// Target is the GPU, or the triple if the command names none; "host" for the host.
	Target string
}

// A Compilation is what a driver does for one source.
type Compilation struct {
	// Jobs are in the order of the driver. The last one writes the output of the compilation.
	Jobs []Job
	// Messages are the warnings of the driver.
	Messages string
	// Configs are the configuration files that the driver read.
	Configs []string
}

// Parse reads what a driver prints with -###.
func Parse(printed string) (*Compilation, error) {
	c := &Compilation{}
	var messages strings.Builder
	for line := range strings.Lines(printed) {
		switch text := strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(text, ` "`):
			words, ok := Words(text)
			if !ok {
				return nil, Reason("the compiler lists a command that cannot be read")
			}
			if err := c.add(words); err != nil {
				return nil, err
			}
		case strings.HasPrefix(text, "Configuration file: "):
			c.Configs = append(c.Configs, strings.TrimPrefix(text, "Configuration file: "))
		case isHeader(text):
		default:
			messages.WriteString(line)
		}
	}
	c.Messages = messages.String()
	switch {
	case strings.Contains(c.Messages, "error:"):
		return nil, Reason("the compiler rejects the command")
	case len(c.Jobs) == 0:
		return nil, Reason("the compiler does not list its jobs as clang does")
	}
	last := len(c.Jobs) - 1
	for i, job := range c.Jobs[:last] {
		if !slices.ContainsFunc(c.Jobs[i+1:], func(j Job) bool { return slices.Contains(j.Inputs, i) }) {
			return nil, Reason(fmt.Sprintf("no job reads %s: the compilation has several outputs", filepath.Base(job.Output)))
		}
	}
	return c, nil
}

// isHeader reports whether a line describes the compiler.
func isHeader(line string) bool {
	if line == "" || line == " (in-process)" {
		return true
	}
	for _, prefix := range []string{"Target: ", "Thread model: ", "InstalledDir: ", "Build config: ", "HIP version: ", "System configuration file directory: ", "User configuration file directory: "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	before, _, ok := strings.Cut(line, "clang version ")
	return ok && !strings.Contains(before, ":")
}

// add adds a job.
func (c *Compilation) add(words []string) error {
	job := Job{Args: words}
	if err := job.identify(); err != nil {
		return err
	}
	if job.Output == "" || job.Output == "-" {
		return Reason("a job writes no file")
	}
	for i, earlier := range c.Jobs {
		if earlier.Output == job.Output {
			return Reason("two jobs write the same file")
		}
		if slices.ContainsFunc(words[1:], func(word string) bool { return Names(word, earlier.Output) }) {
			job.Inputs = append(job.Inputs, i)
		}
	}
	c.Jobs = append(c.Jobs, job)
	return nil
}

// Names reports whether a word names a file: it is the file, or has it after a comma or an equals sign, up to the
// next comma.
func Names(word, file string) bool {
	for from := 0; ; {
		i := strings.Index(word[from:], file)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(file)
		if (i == 0 || word[i-1] == '=' || word[i-1] == ',') && (end == len(word) || word[end] == ',') {
			return true
		}
		from = i + 1
	}
}

// Replace returns a word with another name for a file that it names.
func Replace(word, file, other string) string {
	if !Names(word, file) {
		return word
	}
	return strings.ReplaceAll(word, file, other)
}

// identify sets the kind, the target and the output of a job.
func (j *Job) identify() error {
	switch name := toolName(j.Args[0]); name {
	case "clang", "clang++", "amdclang", "amdclang++":
		if len(j.Args) < 2 || j.Args[1] != "-cc1" {
			return Reason("the compiler runs " + name + " for more than a compilation")
		}
		j.Kind, j.Output = Compile, after(j.Args, "-o")
		j.Target = "host"
		if slices.Contains(j.Args, "-fcuda-is-device") || slices.ContainsFunc(j.Args, func(a string) bool {
			return strings.HasPrefix(a, "-fopenmp-is-target-device") || a == "-fopenmp-is-device"
		}) {
			if j.Target = after(j.Args, "-target-cpu"); j.Target == "" {
				j.Target = after(j.Args, "-triple")
			}
			if strings.HasPrefix(after(j.Args, "-triple"), "amdgcn") {
				for i, arg := range j.Args[:len(j.Args)-1] {
					if feature := j.Args[i+1]; arg == "-target-feature" && (strings.HasSuffix(feature, "xnack") || strings.HasSuffix(feature, "sramecc")) {
						j.Target += ":" + feature[1:] + feature[:1]
					}
				}
			}
		}
	case "lld", "ld.lld":
		j.Kind, j.Output = Link, after(j.Args, "-o")
		for _, arg := range j.Args {
			if cpu, ok := strings.CutPrefix(arg, "-plugin-opt=mcpu="); ok {
				j.Target = cpu
			}
		}
	case "clang-offload-bundler":
		j.Kind = Pack
		for _, arg := range j.Args {
			if output, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "output="); ok {
				j.Output = output
			}
		}
	case "llvm-offload-binary", "clang-offload-packager":
		j.Kind, j.Output = Pack, after(j.Args, "-o")
	case "clang-linker-wrapper":
		if !slices.Contains(j.Args, "--emit-fatbin-only") {
			return Reason("the compiler links")
		}
		j.Kind, j.Output = Pack, after(j.Args, "-o")
	case "ld", "collect2", "ld.gold", "ld.bfd", "ld.mold":
		return Reason("the compiler links")
	default:
		return Reason("the compiler runs " + name)
	}
	return nil
}

// toolName returns the name of a program without its directory and release.
func toolName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if i := strings.LastIndexByte(name, '-'); i > 0 && strings.Trim(name[i+1:], "0123456789.") == "" {
		name = name[:i]
	}
	return name
}

// after returns the word after an option, "" for none.
func after(words []string, option string) string {
	if i := slices.Index(words, option); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// Words returns the words of a command that a driver prints: each is in quotes, with a backslash before quotes,
// backslashes and dollar signs.
func Words(line string) (words []string, ok bool) {
	for i := 0; i < len(line); {
		if line[i] == ' ' {
			i++
			continue
		}
		if line[i] != '"' {
			return nil, false
		}
		var word []byte
		for i++; ; i++ {
			if i >= len(line) {
				return nil, false
			}
			if line[i] == '"' {
				i++
				break
			}
			if line[i] == '\\' {
				if i++; i >= len(line) {
					return nil, false
				}
			}
			word = append(word, line[i])
		}
		words = append(words, string(word))
	}
	return words, len(words) > 0
}

// optionsWithValue are the options of the driver that have their value in the next word, of those that commands of
// builds have.
var optionsWithValue = []string{
	"-o", "-x", "-I", "-D", "-U", "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-MF", "-MT", "-MQ", "-MJ", "-Xclang", "-Xarch_host", "-Xarch_device",
	"-Xpreprocessor", "-Xassembler", "-Xlinker", "-Xoffload-linker", "-mllvm", "-target", "--target", "-arch", "--offload-arch", "--rocm-path", "--sysroot", "-isysroot", "--param", "-T", "-L", "-l",
	"-F", "-iprefix", "-iwithprefix", "-iwithprefixbefore", "-isystem-after", "-cxx-isystem", "--config", "-dumpdir", "-Xopenmp-target", "-Xcuda-ptxas", "-Xcuda-fatbinary", "-serialize-diagnostics", "--serialize-diagnostics",
	"-B", "-gen-cdb-fragment-path", "-u", "-z", "-e", "-working-directory", "-ivfsoverlay", "-framework", "-resource-dir",
}

// TakesValue reports whether an option of the driver has its value in the next word.
func TakesValue(option string) bool { return slices.Contains(optionsWithValue, option) }

// effects are options of the driver that change what it does in ways that its jobs do not show.
var effects = []struct{ option, why string }{
	{"-E", "it preprocesses"}, {"-S", "it writes assembly"}, {"-M", "it writes dependencies only"}, {"-MM", "it writes dependencies only"}, {"-fsyntax-only", "it only checks"},
	{"-###", "it lists jobs"}, {"-v", "it prints commands"}, {"--version", "it prints a version"}, {"--help", "it prints help"}, {"-MJ", "it writes a compilation database (-MJ)"},
	{"-gen-cdb-fragment-path", "it writes a compilation database"}, {"-fdriver-only", "it runs no job"}, {"-H", "it lists headers"}, {"-dM", "it lists macros"},
	{"--analyze", "it analyzes"}, {"-working-directory", "it has a working directory"}, {"--verify-debug-info", "it verifies debug information"}, {"-ccc-print-phases", "it lists phases"},
	{"--offload-device-only", "it compiles device code only"}, {"--cuda-device-only", "it compiles device code only"}, {"-fno-integrated-cc1", "it runs without the integrated compiler"},
	{"-MG", "headers may be missing (-MG)"}, {"-no-integrated-as", "it runs another assembler"}, {"-fno-integrated-as", "it runs another assembler"}, {"-time", "it prints times"},
}

// effectPrefixes are the beginnings of such options.
var effectPrefixes = []struct{ prefix, why string }{
	{"-save-temps", "it keeps temporary files"}, {"--save-temps", "it keeps temporary files"}, {"-save-stats", "it writes statistics"}, {"-print-", "it prints"}, {"--print-", "it prints"},
	{"-ftime-trace", "it writes a trace"}, {"-ftime-report", "it prints times"}, {"-fproc-stat-report", "it prints times"}, {"-gsplit-dwarf", "it writes split debug information"}, {"-working-directory=", "it has a working directory"},
	{"-fcrash-diagnostics", "it changes crash reports"}, {"-gen-reproducer", "it changes crash reports"}, {"-fmodule", "it uses modules"}, {"-fcxx-modules", "it uses modules"},
	{"-fprofile-", "it uses profiles"}, {"--coverage", "it writes coverage notes"}, {"-ftest-coverage", "it writes coverage notes"}, {"-fuse-cuid=random", "the compilation unit has a random name"},
	{"-specs", "it reads specs"}, {"-flto", "it compiles for LTO"}, {"-foffload-lto", "it compiles for LTO"}, {"-fsave-optimization-record", "it writes a record of optimizations"}, {"-foptimization-record", "it writes a record of optimizations"},
	{"-fdiagnostics-add-output", "it writes messages to a file"}, {"-serialize-diagnostics", "it writes messages to a file"}, {"--serialize-diagnostics", "it writes messages to a file"},
}

// sources are the extensions of sources that a driver compiles.
var sources = []string{".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP", ".hip", ".cu"}

// A Command is the command line of a driver that compiles one source.
type Command struct {
	Args   []string // without the compiler
	Source int      // the index of the source
	Output int      // the index of the output, -1 if the driver names it
}

// Check reads the arguments of a driver. The error is a Reason if they are not those of a compilation of one source, or have
// an effect that its jobs do not show.
func Check(args []string) (*Command, error) {
	c := &Command{Args: args, Source: -1, Output: -1}
	compiles, language := false, ""
	for i := 0; i < len(args); i++ {
		arg := args[i]
		for _, e := range effects {
			if arg == e.option {
				return nil, Reason(e.why)
			}
		}
		for _, e := range effectPrefixes {
			if strings.HasPrefix(arg, e.prefix) {
				return nil, Reason(e.why)
			}
		}
		switch {
		case arg == "-c":
			compiles = true
		case arg == "-o" && i+1 < len(args):
			if c.Output >= 0 {
				return nil, Reason("it has several outputs")
			}
			i++
			c.Output = i
		case strings.HasPrefix(arg, "-o") && !strings.HasPrefix(arg, "-ob"):
			return nil, Reason("its output is not a word of its own")
		case arg == "-x" && i+1 < len(args):
			i++
			language = args[i]
		case TakesValue(arg):
			i++
		case strings.HasPrefix(arg, "@"):
			return nil, Reason("it has a response file")
		case arg == "-":
			return nil, Reason("it reads standard input")
		case !strings.HasPrefix(arg, "-"):
			if c.Source >= 0 {
				return nil, Reason("it has several inputs")
			}
			c.Source = i
		}
	}
	switch {
	case c.Source < 0:
		return nil, Reason("it has no source")
	case !compiles:
		return nil, Reason("it does more than compile (no -c)")
	case language == "" && !slices.Contains(sources, filepath.Ext(args[c.Source])):
		return nil, Reason("its input is not C, C++, HIP or CUDA")
	case language != "" && !slices.Contains([]string{"c", "c++", "hip", "cuda", "none"}, language):
		return nil, Reason("its language is " + language)
	}
	return c, nil
}

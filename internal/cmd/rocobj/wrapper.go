package rocobj

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// wrapperHelp is the help of roc-obj.
const wrapperHelp = `Usage: %s [-h] [-t REGEXP] [-o OUTDIR] [-I STRING|-i] [-d] EXECUTABLE... [: [SUFFIX COMMAND [ARG...] ;]...]
Writes the code objects of HIP programs, libraries, objects and bundles to files EXECUTABLE:BUNDLE.ENTRY_ID, and runs commands with each.
  -h, --help             	Print this help.
  -t, --target-id REGEXP 	Write only code objects whose entry ID matches a POSIX extended regular expression.
  -o, --outdir OUTDIR    	The directory of the files, which is created.
  -I, --replace-string S 	Replace S in each ARG with the name of the file.
  -i, --replace          	The same as -I {}
  -d, --disassemble      	Run llvm-objdump -d with each, into a file with the suffix .s
Standard input of a command is the code object. Standard output is a file with the suffix; "-" is that of this program, "!" none.
offload extract writes images of any form.
`

// wrapper is a run of roc-obj.
type wrapper struct {
	call        *command.Call
	target      string // a regular expression
	outdir      string
	replace     string
	disassemble bool
}

// embedded is a command to run with each code object.
type embedded struct {
	suffix string
	args   []string // the program first
}

// Wrapper runs a command line of roc-obj and returns its exit code: that of the first command that fails, or 1.
func Wrapper(ctx context.Context, call *command.Call) int {
	w := &wrapper{call: call}
	names, help, err := w.options(ctx, call.Args)
	if help {
		fmt.Fprintf(call.Stdout, wrapperHelp, call.Name)
		return 0
	}
	if err == nil {
		err = w.run(ctx, names)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(call.Stderr, "error: %v\n", err)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}

// options reads the options before the first operand, and returns the operands.
func (w *wrapper) options(ctx context.Context, args []string) (operands []string, help bool, err error) {
	long := map[string]string{"--help": "-h", "--target-id": "-t", "--outdir": "-o", "--replace-string": "-I", "--replace": "-i", "--disassemble": "-d"}
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		value, hasValue := "", false
		if strings.HasPrefix(word, "--") {
			name, rest, found := strings.Cut(word, "=")
			if word = long[name]; word == "" {
				return nil, false, fmt.Errorf("unrecognized option '%s'; run %s --help", name, w.call.Name)
			}
			value, hasValue = rest, found
		}
		for letters := word[1:]; letters != ""; {
			letter := letters[:1]
			letters = letters[1:]
			if strings.Contains("toI", letter) {
				switch {
				case hasValue:
				case letters != "":
					value, letters = letters, ""
				case len(args) > 0:
					value, args = args[0], args[1:]
				default:
					return nil, false, fmt.Errorf("option requires an argument -- '%s'", letter)
				}
			}
			switch letter {
			case "h":
				return nil, true, nil
			case "t":
				w.target = value
				if _, err = w.matching(ctx, nil); err != nil {
					return nil, false, fmt.Errorf("-t: found %q, expected a POSIX extended regular expression: %w", value, err)
				}
			case "o":
				w.outdir = value
			case "I":
				w.replace = value
			case "i":
				w.replace = "{}"
			case "d":
				w.disassemble = true
			default:
				return nil, false, fmt.Errorf("invalid option -- '%s'; run %s --help", letter, w.call.Name)
			}
		}
	}
	return args, false, nil
}

// run writes the code objects and runs the commands.
func (w *wrapper) run(ctx context.Context, operands []string) error {
	names, rest := operands, []string(nil)
	if i := slices.Index(operands, ":"); i >= 0 {
		names, rest = operands[:i], operands[i+1:]
	}
	var commands []embedded
	for len(rest) > 0 {
		args := rest
		if i := slices.Index(rest, ";"); i >= 0 {
			args, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if len(args) < 2 {
			return fmt.Errorf("found %q after \":\", expected a suffix and a command", strings.Join(args, " "))
		}
		commands = append(commands, embedded{args[0], args[1:]})
	}
	if w.disassemble {
		objdump, err := w.objdump()
		if err != nil {
			return err
		}
		commands = append(commands, embedded{".s", []string{objdump, "-d", "-"}})
	}
	files := w.call.Session.Files()
	if w.outdir != "" {
		dir, err := files.Abs(w.outdir)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	var written []string
	for _, name := range names {
		outputs, err := w.extract(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		written = append(written, outputs...)
	}
	if len(written) == 0 {
		return errors.New("no executables specified")
	}
	for _, c := range commands {
		for _, file := range written {
			if err := w.command(ctx, c, file); err != nil {
				return fmt.Errorf("%s: %s: %w", file, c.args[0], err)
			}
		}
	}
	return nil
}

// objdump returns llvm-objdump: beside this program, in HIP_CLANG_PATH or ROCm's directory of LLVM, or on PATH.
func (w *wrapper) objdump() (string, error) {
	const tool = "llvm-objdump"
	var dirs []string
	if self, err := os.Executable(); err == nil {
		llvm := filepath.Join(filepath.Dir(self), "../../llvm/bin")
		if path, ok := w.call.LookupEnv("HIP_CLANG_PATH"); ok && path != "" {
			llvm = path
		}
		dirs = []string{filepath.Dir(self), llvm}
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, tool)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(tool)
	if err != nil {
		return "", fmt.Errorf("could not find %s in %s or PATH", tool, strings.Join(dirs, " "))
	}
	return path, nil
}

// extract writes the code objects of a file, and returns the names of the outputs.
func (w *wrapper) extract(ctx context.Context, name string) ([]string, error) {
	f, err := w.call.Session.Open(ctx, operand(name), images.Options{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := hipImages(f)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, image := range all {
		ids = append(ids, image.ID)
	}
	matching, err := w.matching(ctx, ids)
	if err != nil {
		return nil, err
	}
	var outputs []string
	var extractions []engine.Extraction
	for _, image := range all {
		if image.Size == 0 || !slices.Contains(matching, image.ID) {
			continue
		}
		if strings.ContainsAny(image.ID, "/\\\x00") {
			return nil, fmt.Errorf("the entry ID %q cannot be part of a file name", image.ID)
		}
		output := filepath.Join(w.outdir, fmt.Sprintf("%s:%d.%s", filepath.Base(name), image.number, image.ID))
		outputs = append(outputs, output)
		extractions = append(extractions, engine.Extraction{Output: output, Images: []*images.DeviceImage{image.DeviceImage}})
	}
	if len(extractions) == 0 {
		return nil, nil
	}
	_, err = w.call.Session.Extract(ctx, f, extractions)
	return outputs, err
}

// matching returns the entry IDs that match the expression of -t. It asks grep, because package regexp
// would initialise its tables in every call of every tool.
func (w *wrapper) matching(ctx context.Context, ids []string) ([]string, error) {
	if w.target == "" {
		return ids, nil
	}
	cmd := exec.CommandContext(ctx, "grep", "-a", "-E", "-e", w.target)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = strings.NewReader(strings.Join(ids, "\n"))
	lines, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if exit.ExitCode() == 1 {
			return nil, nil
		}
		err = errors.New(strings.TrimSpace(strings.TrimPrefix(string(exit.Stderr), "grep: ")))
	}
	return strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n"), err
}

// command runs a command with a code object.
func (w *wrapper) command(ctx context.Context, c embedded, file string) error {
	files := w.call.Session.Files()
	path, err := files.Abs(file)
	if err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	args := slices.Clone(c.args[1:])
	for i, arg := range args {
		if w.replace != "" {
			args[i] = strings.ReplaceAll(arg, w.replace, file)
		}
	}
	cmd := exec.CommandContext(ctx, c.args[0], args...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = files.Dir(), in, w.call.Stderr
	switch c.suffix {
	case "-":
		cmd.Stdout = w.call.Stdout
	case "!":
		cmd.Stdout = io.Discard
	default:
		out, err := os.Create(path + c.suffix)
		if err != nil {
			return err
		}
		cmd.Stdout = out
		return cmp.Or(cmd.Run(), out.Close())
	}
	return cmd.Run()
}

// Package compilation runs clang for an action of Bazel, and does what clang's command line
// cannot: it lists the headers among the action's inputs that clang did not read, adds the headers
// of OpenMP devices, and writes a source with its headers into one file.
package compilation

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// Options describe a compilation.
type Options struct {
	// Command is clang and its arguments. A name without a slash is searched for in PATH
	// and, if the environment has no PATH, in the directories of the system.
	Command []string
	// Stdin names the file that clang reads from standard input; "" for that of this process.
	Stdin string
	// Headers names a file with the paths of headers, one per line, which can be listed.
	Headers string
	// Unused names the file to write: those of Headers that clang did not read, one per
	// line, as in the file Headers. No file is written if it is "".
	Unused string
	// DeviceHeaders adds the flags with which clang's driver has the compiler find its
	// headers for OpenMP devices before those of the system.
	DeviceHeaders bool
	// DeviceFunctions also adds the flags that include the functions of OpenMP devices.
	DeviceFunctions bool
	// Source names the file to write: what clang prints with -E -frewrite-includes, as
	// a source for all compilations (see [portable]). "" leaves the output to clang.
	Source string
	// EmptyLines is the number of empty lines at the start of Source.
	EmptyLines int
	// Done names an empty file to write after clang succeeds; "" for none.
	Done string
	// Record names the optimization record that clang writes, to which remarks about the resources of kernels are moved from
	// the messages; "" for none.
	Record string
}

// ExitError reports a compiler that did not succeed and has reported the reason itself.
type ExitError struct {
	Code int // as a shell has it: 128 and the signal if one ended the compiler
}

// Error gives the exit code.
func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Run runs a compilation, with the standard streams and the environment of this
// process, and writes the list if the compilation succeeds. Signals that would end
// this process go to the compiler. If such a signal ends the compiler, it ends this
// process as well. Run returns an *ExitError if the compiler fails.
func Run(opt Options) error {
	if err := checkCounters(opt.Command); err != nil {
		return err
	}
	command := slices.Clip(opt.Command)
	depfile := ""
	if opt.Unused != "" {
		var err error
		if depfile, err = createNew(opt.Unused + ".d"); err != nil {
			return err
		}
		defer os.Remove(depfile)
		command = append(command, dependencyFlags(depfile)...)
	}
	if opt.DeviceHeaders || opt.DeviceFunctions {
		flags, err := deviceFlags(opt.Command[0], opt.DeviceFunctions)
		if err != nil {
			return err
		}
		command = append(command, flags...)
	}
	outputs := map[string][]byte{}
	if err := compile(command, opt, outputs); err != nil {
		return err
	}
	if opt.Done != "" {
		outputs[opt.Done] = nil
	}
	if opt.Unused != "" {
		list, err := list(depfile, opt)
		if err != nil {
			return err
		}
		outputs[opt.Unused] = list
	}
	return files.NewRoot("").Write(context.Background(), func(out *files.Outputs) error {
		for name, content := range outputs {
			output, err := out.Create(name)
			if err != nil {
				return err
			}
			if _, err := output.Write(content); err != nil {
				return err
			}
		}
		return nil
	})
}

// compile runs clang, with the standard input and output that the options name. It adds the source
// that clang prints to outputs.
func compile(command []string, opt Options, outputs map[string][]byte) error {
	stdin, stdout := os.Stdin, io.Writer(os.Stdout)
	if opt.Stdin != "" {
		file, err := os.Open(opt.Stdin)
		if err != nil {
			return err
		}
		defer file.Close()
		stdin = file
	}
	var printed bytes.Buffer
	if opt.Source != "" {
		stdout = &printed
	}
	stderr := &messages{to: os.Stderr}
	if err := recorded(opt.Record, stderr, func() error { return start(command, stdin, stdout, stderr) }); err != nil {
		stderr.explain()
		return err
	}
	if opt.Source != "" {
		outputs[opt.Source] = portable(printed.Bytes(), opt.EmptyLines)
	}
	return nil
}

// recorded calls compile, and moves remarks about the resources of kernels from the messages to an optimization record, unless
// record is "".
func recorded(record string, stderr *messages, compile func() error) error {
	if record == "" {
		return compile()
	}
	to, printed := stderr.to, new(bytes.Buffer)
	stderr.to, stderr.all = printed, true
	err := compile()
	stderr.to = to
	rest, moved := MoveResources(printed.String(), record)
	_, failed := io.WriteString(to, rest)
	return cmp.Or(err, failed, moved)
}

// MoveResources moves remarks about the resources of kernels from messages of clang or lld to an optimization record that exists,
// and returns the other messages.
func MoveResources(messages, record string) (rest string, err error) {
	rest, remarks := kernels.TakeResources(messages)
	if remarks == "" {
		return rest, nil
	}
	file, err := os.OpenFile(record, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return rest, err
	}
	_, err = file.WriteString(remarks)
	return rest, cmp.Or(err, file.Close())
}

// list returns the list of headers that clang did not read.
func list(depfile string, opt Options) ([]byte, error) {
	if info, err := os.Stat(depfile); err == nil && info.Size() == 0 { // clang did not write it
		if err := os.Remove(depfile); err != nil {
			return nil, err
		}
	}
	headers, err := os.ReadFile(opt.Headers)
	if err != nil {
		return nil, err
	}
	var list bytes.Buffer
	for _, name := range unused(lines(headers), depfile, opt) {
		list.WriteString(name)
		list.WriteByte('\n')
	}
	return list.Bytes(), nil
}

// createNew creates an empty file with a name, or with the first free one of NAME.1, NAME.2 and so
// on, and returns the name. The name is not random, because flags can record it in the output of clang.
func createNew(name string) (string, error) {
	for i, try := 1, name; ; i, try = i+1, fmt.Sprintf("%s.%d", name, i) {
		f, err := os.OpenFile(try, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			return try, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

// dependencyFlags are the flags with which clang writes a dependency file that names
// all files that it includes. The driver's -MD has no effect on device code.
func dependencyFlags(name string) []string {
	var flags []string
	for _, flag := range []string{"-dependency-file", name, "-MT", "x", "-sys-header-deps"} {
		flags = append(flags, "-Xclang", flag)
	}
	return flags
}

func lines(text []byte) []string {
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// forwarded are the signals that end a process and can be handled.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// whyMissing explains that the system cannot find a program although its file exists: the program that loads its libraries,
// or runs the script, is missing.
func whyMissing(program string, err error) string {
	if !errors.Is(err, syscall.ENOENT) {
		return ""
	}
	f, openErr := os.Open(program)
	if openErr != nil {
		return ""
	}
	defer f.Close()
	interpreter, _ := elf.Interpreter(f)
	if interpreter == "" {
		line, _ := bufio.NewReader(io.NewSectionReader(f, 0, 4096)).ReadString('\n')
		script, ok := strings.CutPrefix(line, "#!")
		words := strings.Fields(script)
		if !ok || len(words) == 0 {
			return ""
		}
		interpreter = words[0]
	}
	return fmt.Sprintf(": the file exists, but its interpreter %s does not: run the action in an image that has it", interpreter)
}

// start runs a command to its end. The command stays in the process group, as without
// this process: who ends the group ends the compiler.
func start(command []string, stdin *os.File, stdout io.Writer, stderr *messages) error {
	cmd := exec.Command(find(command[0]), command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	if stderr.all || !isTerminal(os.Stderr) {
		cmd.Stderr = stderr
	}
	endWithParent(cmd)
	// With Linux, the compiler ends when the thread that starts it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	signals := make(chan os.Signal, 8)
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	if err := cmd.Start(); err != nil {
		signal.Stop(signals)
		var reason syscall.Errno
		if errors.As(err, &reason) {
			err = reason
		}
		return fmt.Errorf("%s: cannot start the compiler: %w%s", command[0], err, whyMissing(cmd.Path, err))
	}
	done := make(chan struct{})
	// unguarded: it passes signals on
	go func() {
		for {
			select {
			case s := <-signals:
				cmd.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	signal.Stop(signals)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return &ExitError{Code: exit.ExitCode()}
	}
	end(status.Signal())
	return &ExitError{Code: 128 + int(status.Signal())}
}

// directories are those of PATH where the environment has none, as for shells.
var directories = []string{"/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin"}

// find returns the path of a command. It returns the name if PATH is set, or if no directory has the command.
func find(name string) string {
	if _, set := os.LookupEnv("PATH"); set || strings.Contains(name, "/") {
		return name
	}
	for _, dir := range directories {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path
		}
	}
	return name
}

// end ends this process with a signal, if the signal does so without a message of Go.
func end(s syscall.Signal) {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL:
		signal.Reset(s)
		if syscall.Kill(os.Getpid(), s) == nil {
			time.Sleep(time.Second) // it takes effect meanwhile
		}
	}
}

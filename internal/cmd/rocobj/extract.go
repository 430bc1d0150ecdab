package rocobj

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// extractHelp is the help of roc-obj-extract.
const extractHelp = `Usage: %s [-o|v|h] URI...
Writes each code object to a file FILE-offsetN-sizeN.co or pidN-offsetN-sizeN.co.
Without arguments, standard input has a URI on each line.
  -o <path> 	The directory of the files; "-" writes the code objects to standard output.
  -v        	Print what is read.
  -h        	Print this help.
A URI is file://PATH#offset=N&size=N or memory://PID#offset=N&size=N, as roc-obj-ls prints it:
  "?" is the same as "#"; without a size, the rest of the file is written.
  &bundle=N selects the uncompressed bytes of compressed bundle N of the file.
  Numbers are decimal, octal (017) or hexadecimal (0x1f). Quote URIs in a shell.
offload unbundle and offload extract write entries by their target.
`

// standardStream is the name of standard input and of standard output.
const standardStream = "-"

// maxExitCode limits the exit code, which is the number of errors.
const maxExitCode = 255

// Extract runs a command line of roc-obj-extract. It returns the number of errors.
func Extract(ctx context.Context, call *command.Call) int {
	given, list := parse(call.Stderr, "vho:", call.Args)
	if given.has(help) {
		fmt.Fprintf(call.Stdout, extractHelp, call.Name)
		return 0
	}
	x := &extractor{call: call, to: given['o'], verbose: io.Discard}
	if given.has('v') {
		x.verbose = call.Stdout
		if x.to == standardStream {
			x.verbose = call.Stderr
		}
	}
	if x.to != "" && x.to != standardStream {
		info, err := call.Session.Files().Stat(x.to)
		if err != nil || !info.IsDir() {
			report(call.Stderr, "Path '%s' cannot be found.", x.to)
			if err == nil {
				return fatalCode
			}
			return notFoundCode
		}
	}
	if len(list) == 0 {
		var err error
		if list, err = lines(call.Session); err != nil {
			report(call.Stderr, "%v", err)
			return fatalCode
		}
	}
	if len(list) == 0 {
		report(call.Stderr, "No arguments.")
		fmt.Fprintf(call.Stdout, extractHelp, call.Name)
		return 1
	}
	failed := 0
	for _, text := range list {
		if ctx.Err() != nil {
			return 1
		}
		if err := x.uri(ctx, text); err != nil {
			report(call.Stderr, "%v", err)
			failed++
		}
	}
	return min(failed, maxExitCode)
}

// lines returns the lines of standard input; none if it is a terminal.
func lines(s *engine.Session) ([]string, error) {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
		if null, err := os.Stat(os.DevNull); err != nil || !os.SameFile(info, null) {
			return nil, nil
		}
	}
	in, err := s.Files().Open(standardStream)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text := strings.TrimSuffix(string(in.All().Mapped(guard.Inside)), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}

// extractor is a run of roc-obj-extract.
type extractor struct {
	call *command.Call
	// to is the directory of outputs; "" is the current one, "-" standard output.
	to      string
	verbose io.Writer
}

// uri writes the code object of a URI.
func (x *extractor) uri(ctx context.Context, text string) error {
	u, err := parseURI(text)
	if err != nil {
		return err
	}
	read := x.file
	switch {
	case u.scheme == memoryScheme:
		read = x.memory
	case u.bundle > 0:
		read = x.compressed
	}
	return read(ctx, u)
}

// file writes a range of a file.
func (x *extractor) file(ctx context.Context, u *uri) error {
	in, err := x.call.Session.Files().Open(operand(u.path))
	if err != nil {
		return notFound(u, err)
	}
	defer in.Close()
	all := in.All()
	if u.size < 0 && u.offset <= all.Len() {
		u.size = all.Len() - u.offset
	}
	if u.offset > all.Len() || u.size > all.Len()-u.offset {
		return fmt.Errorf("requested offset(%d) + size(%d) exceeds file size(%d) for file \"%s\".", u.offset, max(u.size, 0), all.Len(), u.path)
	}
	return x.write(u, u.path, func(output string) error {
		return x.call.Session.WriteFiles(ctx, engine.Output{Name: output, Write: func(w io.Writer) error {
			_, err := w.Write(all.Slice(u.offset, u.size).Mapped(guard.Inside))
			return err
		}})
	})
}

// compressed writes an entry of a compressed bundle.
func (x *extractor) compressed(ctx context.Context, u *uri) error {
	f, err := x.call.Session.Open(ctx, operand(u.path), images.Options{})
	if err != nil {
		return notFound(u, err)
	}
	defer f.Close()
	all, err := f.All()
	if err != nil {
		return err
	}
	for _, image := range all {
		if !listed(image) || !image.Compressed() || image.Members != nil ||
			int64(image.Bundle) != u.bundle || image.Offset != u.offset || u.size >= 0 && image.Size != u.size {
			continue
		}
		u.size = image.Size
		return x.write(u, u.path, func(output string) error {
			_, err := x.call.Session.Extract(ctx, f, []engine.Extraction{{Output: output, Images: []*images.DeviceImage{image}}})
			return err
		})
	}
	return fmt.Errorf("%s: compressed bundle %d has no entry at offset(%d) of size(%s); run roc-obj-ls to list the entries", u.path, u.bundle, u.offset, u.written("size"))
}

// memory writes a range of the memory of a process.
func (x *extractor) memory(ctx context.Context, u *uri) error {
	pid, err := strconv.ParseUint(u.path, 10, 31)
	if err != nil || pid == 0 || errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) {
		return fmt.Errorf("PID: %s is NOT running", u.path)
	}
	if u.size < 0 {
		return fmt.Errorf("must specify a Range Specifier (offset and size) for a memory URI: %s://%s", u.scheme, u.path)
	}
	name := fmt.Sprintf("/proc/%d/mem", pid)
	in, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("can't find file: %s: %w", name, err)
	}
	defer in.Close()
	return x.write(u, "pid"+u.path, func(output string) error {
		return x.call.Session.WriteFiles(ctx, engine.Output{Name: output, Write: func(w io.Writer) error {
			n, err := io.Copy(w, io.NewSectionReader(in, u.offset, u.size))
			if err == nil && n < u.size {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return fmt.Errorf("%s: read %d of %d bytes: %w", name, n, u.size, err)
			}
			return nil
		}})
	})
}

// write calls fn with the name of the output of a URI, unless the code object is empty.
func (x *extractor) write(u *uri, source string, fn func(output string) error) error {
	if u.size == 0 {
		fmt.Fprintf(x.verbose, "Warning: trying to extract from %s at offset=%d with size=0.  Nothing to extract.\n", u.path, u.offset)
		return nil
	}
	fmt.Fprintf(x.verbose, "Reading input file \"%s\" ...\n", u.path)
	output := standardStream
	if x.to != standardStream {
		output = filepath.Join(x.to, u.output(source))
	}
	if err := fn(output); err != nil {
		return err
	}
	fmt.Fprintf(x.verbose, "Extract request:  file: %s offset: %d size: %d\n", u.path, u.offset, u.size)
	return nil
}

// output returns the name of the file of a URI: numbers are as written.
func (u *uri) output(source string) string {
	name := fmt.Sprintf("%s-offset%s-size%s", filepath.Base(source), u.written("offset"), u.written("size"))
	if u.bundle > 0 {
		name += "-bundle" + u.written("bundle")
	}
	return name + ".co"
}

// written returns a number as the URI has it, or else its value.
func (u *uri) written(name string) string {
	if text, ok := u.attributes[name]; ok {
		return text
	}
	return strconv.FormatInt(map[string]int64{"offset": u.offset, "size": u.size, "bundle": u.bundle}[name], 10)
}

// notFound returns the error of opening the file of a URI.
func notFound(u *uri, err error) error {
	var system *files.Error
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("can't find file: %s", u.path)
	}
	if errors.As(err, &system) {
		return fmt.Errorf("%s: %s", u.path, system.Reason())
	}
	return err
}

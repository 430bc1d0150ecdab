package verb

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// messages returns the message of an error as a line for each error that errors.Join combined.
// Errors of files have the format of LLVM's tools, for the drop-ins; messages of verbs have names
// of files without quotes.
func messages(call *command.Call, err error) []string {
	return printable.Lines(err, func(err error) string {
		var file interface {
			error
			Plain() string
		}
		if !errors.As(err, &file) {
			return err.Error()
		}
		plain := file.Plain()
		if name, dir := missingDirectory(call, err); dir != "" {
			plain = name + ": directory " + dir + " does not exist"
		}
		return strings.Replace(err.Error(), file.Error(), plain, 1)
	})
}

// formatOf returns the format of a file, see check.Format; "" if it cannot be read.
func formatOf(call *invocation, name string) string {
	input, err := call.Session.Files().Open(name)
	if err != nil {
		return ""
	}
	defer input.Close()
	return check.Format(input.Mapped(guard.Inside))
}

// found is the end of a message on a file without what a verb needs: what the file contains instead.
// It is empty if the file cannot be read.
func found(call *invocation, name string) string { return foundFormat(formatOf(call, name)) }

// foundFormat is found for a result of formatOf.
func foundFormat(format string) string {
	switch format {
	case "":
		return ""
	case check.Gzip, check.Zstd:
		return ": found " + format + "; decompress it first"
	}
	return ": found " + format
}

// foundCode is found with advice for files of some formats, which another verb reads.
func foundCode(call *invocation, name, advice string, formats ...string) string {
	format := formatOf(call, name)
	if slices.Contains(formats, format) {
		return foundFormat(format) + "; " + advice
	}
	return foundFormat(format)
}

// warnOfCode warns if a flag TARGET=FILE names a code object for another processor.
func warnOfCode(call *invocation, flag, name, file string) {
	const standardInput = "-"
	processor, _, _ := strings.Cut(name, ":")
	if !target.KnownProcessor(processor) || file == "" || file == standardInput {
		return
	}
	input, err := call.Session.Files().Open(file)
	if err != nil {
		return // the verb reports it
	}
	defer input.Close()
	code, err := codeobject.ParseTarget(input.Mapped(guard.Inside))
	if err != nil || code.Processor == "" || code.Processor == processor || !strings.HasPrefix(processor, "gfx") || strings.Contains(code.Processor, "generic") {
		return
	}
	call.warn("--%s %s=%s: the file is code for %s", flag, printable.Name(name), printable.Name(file), code.Processor)
}

// missingDirectory returns the file of an error and its directory, if that does not exist, or "".
func missingDirectory(call *command.Call, err error) (name, dir string) {
	var file *files.Error
	if !errors.As(err, &file) || !errors.Is(err, fs.ErrNotExist) || file.InArchive() {
		return "", ""
	}
	return file.Name, call.Session.Files().MissingDirectory(file.Name)
}

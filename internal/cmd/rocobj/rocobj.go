// Package rocobj implements the command lines of roc-obj-ls, roc-obj-extract and roc-obj (ROCm/clr,
// hipamd/bin), which list the code objects in HIP programs as URIs, write them to files, and run
// commands with them. ROCm deprecated all of them. Other than these scripts, they read compressed
// bundles and files that are bundles, and need no objdump, dd, Perl and Bash.
package rocobj

import (
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// The exit codes of errors that end the scripts.
const (
	notFoundCode = 2 // a file or a directory does not exist
	fatalCode    = 255
)

// help is the letter of the option that prints the help.
const help = 'h'

// options are the options of a command line, by their letter. The value of an option without a
// value is "".
type options map[byte]string

// has reports whether an option was given.
func (o options) has(letter byte) bool {
	_, ok := o[letter]
	return ok
}

// parse returns the options before the first operand, and the operands. Letters can share a dash:
// -vh. spec lists the letters; a colon follows those that have a value. Like Perl's getopts, parse
// reports unknown letters and continues.
func parse(stderr io.Writer, spec string, args []string) (o options, operands []string) {
	o = options{}
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			return o, args[1:]
		}
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		if word == "--help" {
			o[help] = ""
			continue
		}
		for letters := word[1:]; letters != ""; {
			letter := letters[0]
			letters = letters[1:]
			i := strings.IndexByte(spec, letter)
			switch {
			case i < 0 || letter == ':':
				fmt.Fprintf(stderr, "Unknown option: %s\n", printable.Text(string(letter)))
			case !strings.HasPrefix(spec[i+1:], ":"):
				o[letter] = ""
			case letters != "":
				o[letter], letters = letters, ""
			case len(args) > 0:
				o[letter], args = args[0], args[1:]
			}
		}
	}
	return o, args
}

// report prints an error on a line.
func report(stderr io.Writer, format string, args ...any) {
	fmt.Fprintf(stderr, "Error: "+format+"\n", args...)
}

// LostOutput reports that standard output cannot be written, and returns the exit code.
func LostOutput(stderr io.Writer, err error) int {
	report(stderr, "cannot write to standard output: %v", err)
	return 1
}

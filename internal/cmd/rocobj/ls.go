package rocobj

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// listHelp is the help of roc-obj-ls.
const listHelp = `Usage: %s [-v|h] executable...
Prints a line for each code object of HIP programs, libraries, objects and bundles:
the number of its bundle, its entry ID and its URI.
  -v 	Print column headers before each bundle.
  -h 	Print this help.
offload list prints the entries of a bundle, and offload inspect those of any file.
`

// sectionPrefix begins the names of the sections that have bundles: .hip_fatbin in ELF files,
// .hip_fat in PE files.
const sectionPrefix = ".hip_fat"

// errNoSection reports a file without device code of HIP.
var errNoSection = errors.New("No kernel section found")

// List runs a command line of roc-obj-ls and returns its exit code.
func List(ctx context.Context, call *command.Call) int {
	given, names := parse(call.Stderr, "vhd", call.Args)
	if given.has(help) {
		fmt.Fprintf(call.Stdout, listHelp, call.Name)
		return 0
	}
	l := &lister{call: call, verbose: given.has('v')}
	for _, name := range names {
		err := l.file(ctx, name)
		var system *files.Error
		switch {
		case err == nil:
			continue
		case errors.Is(err, fs.ErrNotExist):
			report(call.Stderr, "failed to open file: %s", name)
			return notFoundCode
		case errors.As(err, &system):
			report(call.Stderr, "failed to open file: %s: %s", name, system.Reason())
		default:
			report(call.Stderr, "%v", err)
		}
		return fatalCode
	}
	return 0
}

// lister is a run of roc-obj-ls.
type lister struct {
	call    *command.Call
	verbose bool
	bundles int // the number of bundles listed, of all files
}

// file lists a file.
func (l *lister) file(ctx context.Context, name string) error {
	f, err := l.call.Session.Open(ctx, operand(name), images.Options{})
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := hipImages(f)
	if err != nil {
		return err
	}
	for i, image := range all {
		if i == 0 || image.number != all[i-1].number {
			l.begin(i == 0)
		}
		fmt.Fprintf(l.call.Stdout, "%-8d%-40s%35s%s\n", l.bundles, image.ID, fileScheme+"://", imageURI(name, image.DeviceImage))
	}
	if l.verbose {
		fmt.Fprintln(l.call.Stdout)
	}
	return nil
}

// numbered is an image and the number of its bundle among those of the file that roc-obj-ls lists, from 1.
type numbered struct {
	*images.DeviceImage
	number int
}

// hipImages returns the images of a file that roc-obj-ls lists. A file without them is an error.
func hipImages(f *images.File) ([]numbered, error) {
	all, err := f.All()
	if err != nil {
		return nil, err
	}
	var list []numbered
	last, number := 0, 0
	for _, image := range all {
		if !listed(image) {
			continue
		}
		if image.Members != nil {
			return nil, fmt.Errorf("%s: a member of an archive has no URI; run offload inspect or offload unbundle-archive", image.Place.String())
		}
		if image.Bundle != last {
			last = image.Bundle
			number++
		}
		list = append(list, numbered{image, number})
	}
	if list == nil {
		return nil, errNoSection
	}
	return list, nil
}

// begin begins a bundle, the first of a file or another one.
func (l *lister) begin(first bool) {
	l.bundles++
	if l.verbose && !first {
		fmt.Fprintln(l.call.Stdout)
	}
	if l.verbose {
		fmt.Fprintf(l.call.Stdout, "%-8s%-40s%35s\n", "Bundle#", "Entry ID:", "URI:")
	}
}

// listed reports whether roc-obj-ls lists an image: an entry of a bundle that is the file or part
// of it, or in a section of HIP.
func listed(image *images.DeviceImage) bool {
	if image.Form != images.FormBundle && image.Form != images.FormCompressed {
		return false
	}
	return image.Section == "" || strings.HasPrefix(image.Section, sectionPrefix)
}

// operand returns the path of an operand: "-" is a file of that name, not standard input.
func operand(name string) string {
	if name == "-" {
		return "." + string(filepath.Separator) + name
	}
	return name
}

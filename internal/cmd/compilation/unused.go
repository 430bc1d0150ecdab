package compilation

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/rules-offload/rules_offload/internal/launch/depfile"
)

// unused returns those of the headers, in their order, that a compilation has not
// read, by the dependency file that clang wrote. It returns nil if clang may have read
// files that the dependency file does not name, or if the file names anything that is
// not there.
func unused(headers []string, dependencies string, opt Options) []string {
	data, err := os.ReadFile(dependencies)
	if err != nil {
		return nil
	}
	names, err := depfile.Parse(data)
	if err != nil || len(names) == 0 && opt.Stdin == "" || readsOtherFiles(opt.Command) {
		return nil
	}
	read := map[string]bool{}
	same := map[fileID]bool{}
	for _, name := range names {
		if name == "-" || name == "<stdin>" {
			continue
		}
		// A file can have several names: of symbolic links, and through "..".
		id, regular := identify(name)
		if !regular || assembles(name) {
			return nil
		}
		same[id] = true
		read[path.Clean(name)] = true
	}
	if slices.Contains(opt.Command, "-") && (opt.Stdin == "" || assembles(opt.Stdin)) {
		return nil
	}
	var list []string
	for _, name := range headers {
		if !isHeader(name) || read[path.Clean(name)] {
			continue
		}
		// Bazel declares directories by one name, and their content can change.
		if id, regular := identify(name); regular && !same[id] {
			list = append(list, name)
		}
	}
	return list
}

// extensions are those of files that clang reads only if a source includes them. Without
// an extension, a file can be another one that clang reads, such as share/hip/version.
var extensions = []string{".H", ".cuh", ".def", ".h", ".h++", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tcc", ".tpp"}

// isHeader reports whether a file can be listed. Bazel trims lines.
func isHeader(name string) bool {
	return slices.Contains(extensions, path.Ext(name)) && strings.TrimSpace(name) == name
}

// fileID identifies a file, whatever its name.
type fileID struct{ device, inode uint64 }

// identify returns the identity of a file and whether it is a regular file.
func identify(name string) (fileID, bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return fileID{}, false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(status.Dev), status.Ino}, true //nolint:unconvert // the type differs between systems
}

// otherFiles are prefixes of flags, without dashes, that have clang read files that a
// dependency file does not name, name files otherwise, or write another dependency file.
var otherFiles = []string{
	"MV",
	"Wp,-M",
	"add-plugin",
	"cc1",
	"config",
	"dependency-",
	"fcxx-modules",
	"fimplicit-module",
	"fmodule",
	"fpass-plugin",
	"fplugin",
	"fprebuilt-module",
	"include-pch",
	"ivfsoverlay",
	"load",
	"plugin",
	"vfsoverlay",
	"working-directory",
}

// readsOtherFiles reports whether a command line, or a response file in it, has such a flag.
func readsOtherFiles(command []string) bool {
	for _, word := range command[1:] {
		if name, ok := strings.CutPrefix(word, "@"); ok {
			// Bazel writes an argument per line, quoted as for a shell.
			text, err := os.ReadFile(name)
			if err != nil || slices.ContainsFunc(lines(text), isOther) {
				return true
			}
		} else if isOther(word) {
			return true
		}
	}
	return false
}

func isOther(word string) bool {
	name := strings.TrimLeft(word, "'")
	if !strings.HasPrefix(name, "-") {
		return strings.HasPrefix(name, "@")
	}
	name = strings.TrimLeft(name, "-")
	return slices.ContainsFunc(otherFiles, func(flag string) bool { return strings.HasPrefix(name, flag) })
}

// directives of the assembler read files that a dependency file does not name. They
// can be in inline assembly.
var directives = [][]byte{[]byte(".incbin"), []byte(".include")}

// assembles reports whether a file has such a directive. Headers of the system do not
// read files of a build.
func assembles(name string) bool {
	if path.IsAbs(name) {
		// Clang writes absolute paths of files in #embed, too.
		dir, err := os.Getwd()
		if err == nil && !strings.HasPrefix(name, dir+"/") {
			return false
		}
	}
	text, err := os.ReadFile(name)
	return err != nil || slices.ContainsFunc(directives, func(d []byte) bool { return bytes.Contains(text, d) })
}

package linkcache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/ar"
)

// used is a file that a key covers.
type used struct {
	fileState
	digest Key
	// settled reports whether a later change of the file changes its state.
	settled bool
}

// unchanged reports whether the file has the same content as when it was hashed.
func (u *used) unchanged() bool {
	now, err := stateOf(u.name)
	if err != nil || now != u.fileState {
		return false
	}
	if u.settled {
		return true
	}
	_, digest, err := digestOf(u.name)
	return err == nil && digest == u.digest
}

// add adds the use of a file in the command, and the digest of its content.
func (k *keyer) add(role string, file used) {
	k.hash.text(role)
	k.hash.text(string(file.digest[:]))
	k.read = append(k.read, file)
}

// file adds the content of a regular file. role describes the use of the file in the command. file returns
// the first bytes of the file.
func (k *keyer) file(role, name string) (head []byte, err error) {
	state, err := stateOf(name)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	head, digest, err := digestOf(name)
	if err != nil {
		return nil, err
	}
	k.add(role, used{state, digest, state.settled(start)})
	return head, nil
}

// linked adds the content of an input of the linker, and finds the files that it names. It fails for text,
// which linkers read as a script that can name other files.
func (k *keyer) linked(role, name string) error {
	head, err := k.file(role, name)
	if err != nil {
		return err
	}
	if !isObject(head) && !ar.Is(head) {
		return errUnknown
	}
	if err := k.search(name); err != nil {
		return errUnknown
	}
	return nil
}

// files adds the files that the words of a linker's command name: inputs, values of options, and
// libraries, also those that inputs name.
func (k *keyer) files(words []string) error {
	search := k.libraryDirs(words)
	for i := 0; i < len(words); i++ {
		word := words[i]
		var err error
		if k.temporary[word] {
			continue
		} else if _, last, ok := option(words, i, directoryOptions); ok {
			i = last
		} else if name, last, ok := option(words, i, listOptions); ok {
			i = last
			err = k.named([]string{name}, search)
		} else if library, last, ok := option(words, i, libraryOptions); ok {
			i = last
			err = k.library(library, search)
		} else if strings.HasPrefix(word, "-") {
			err = k.named(k.values(word), search)
		} else {
			err = k.input(word, search)
		}
		if err != nil {
			return err
		}
	}
	return k.dependent(search)
}

// input adds a word that is not an option: an input, or the value of an option.
func (k *keyer) input(word string, search []string) error {
	if err := k.linked(word, k.path(word)); !missing(err) {
		return err
	}
	return k.named(append(k.values(word), word), search)
}

// named adds the files that values can name. Linkers also look for some in the directories of
// libraries.
func (k *keyer) named(values, search []string) error {
	for _, value := range values {
		if value == "" || k.temporary[value] {
			continue
		}
		names := []string{k.path(value)}
		if !filepath.IsAbs(value) {
			for _, dir := range search {
				names = append(names, filepath.Join(dir, value))
			}
		}
		for _, name := range names {
			if _, err := k.file(name, name); err != nil && !missing(err) {
				return err
			}
		}
	}
	return nil
}

// missing reports whether a file does not exist.
func missing(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && (errors.Is(err, fs.ErrNotExist) || path.Op == "stat" && !errors.Is(err, fs.ErrPermission))
}

// values returns the parts of a word that can be the name of a file: those after an equals sign, a
// comma, or an option of one letter.
func (k *keyer) values(word string) (values []string) {
	if len(word) > 2 && word[0] == '-' && word[1] != '-' && !k.isDir(word[2:]) {
		values = append(values, word[2:])
	}
	for rest := word; ; {
		i := strings.IndexAny(rest, "=,")
		if i < 0 {
			return values
		}
		rest = rest[i+1:]
		value, _, _ := strings.Cut(rest, ",")
		values = append(values, rest)
		if value != rest {
			values = append(values, value)
		}
	}
}

// isDir reports whether a value names a directory, as the end of an option of several letters can.
func (k *keyer) isDir(value string) bool {
	info, err := os.Stat(k.path(value))
	return err == nil && info.IsDir()
}

// Options of linkers whose value is a library, a directory, or a text file that is not a script.
var (
	libraryOptions   = []string{"-l", "--library", "-library"}
	searchOptions    = []string{"-L", "--library-path", "-library-path"}
	directoryOptions = []string{"--sysroot", "--cuda-path", "-rpath", "--rpath", "-rpath-link", "--rpath-link", "-L", "--library-path", "-library-path"}
	listOptions      = []string{
		"--version-script", "-version-script", "--dynamic-list", "-dynamic-list", "--symbol-ordering-file", "-symbol-ordering-file",
		"--call-graph-ordering-file", "-call-graph-ordering-file", "--export-dynamic-symbol-list", "-export-dynamic-symbol-list",
		"--retain-symbols-file", "-retain-symbols-file",
	}
)

// option reports whether word i is one of some options. It returns the value and the index of the last
// word of the option.
func option(words []string, i int, options []string) (value string, last int, ok bool) {
	for _, name := range options {
		rest, ok := strings.CutPrefix(words[i], name)
		switch {
		case !ok:
		case rest == "" && i+1 < len(words):
			return words[i+1], i + 1, true
		case len(name) > 2 && strings.HasPrefix(rest, "="):
			return rest[1:], i, true
		case len(name) == 2 && rest != "":
			return rest, i, true
		}
	}
	return "", i, false
}

// libraryDirs returns the directories in which libraries are searched.
func (k *keyer) libraryDirs(words []string) (dirs []string) {
	sysroot := ""
	for i := range words {
		if dir, _, ok := option(words, i, []string{"--sysroot"}); ok {
			sysroot = dir
		}
	}
	for i := range words {
		dir, _, ok := option(words, i, searchOptions)
		if !ok {
			continue
		}
		for _, prefix := range []string{"=", "$SYSROOT"} {
			if rest, found := strings.CutPrefix(dir, prefix); found {
				dir = filepath.Join(sysroot, rest)
			}
		}
		dirs = append(dirs, k.path(dir))
	}
	return dirs
}

// library adds all files that -l can find.
func (k *keyer) library(name string, search []string) error {
	if exact, ok := strings.CutPrefix(name, ":"); ok {
		return k.anyOf(libraryNames(search, exact))
	}
	return k.anyOf(libraryNames(search, "lib"+name+".so", "lib"+name+".a"))
}

// libraryNames returns the paths of files with some names in each directory, in the order in which a linker
// looks for them.
func libraryNames(dirs []string, names ...string) (paths []string) {
	for _, dir := range dirs {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths
}

// anyOf adds those inputs of the linker that exist, at least one.
func (k *keyer) anyOf(names []string) error {
	found := false
	for _, name := range names {
		err := k.linked(name, name)
		if err != nil && !missing(err) {
			return err
		}
		found = found || err == nil
	}
	if !found {
		return errUnknown
	}
	return nil
}

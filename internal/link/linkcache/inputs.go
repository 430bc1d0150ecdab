package linkcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// fileState is the state of a file. If it is equal, the file is unchanged.
type fileState struct {
	name     string
	size     int64
	modified int64 // in nanoseconds
}

func stateOf(name string) (fileState, error) {
	info, err := os.Stat(name)
	if err != nil {
		return fileState{}, err
	}
	if !info.Mode().IsRegular() {
		return fileState{}, fmt.Errorf("%s %w", name, errUnknown)
	}
	return fileState{name, info.Size(), info.ModTime().UnixNano()}, nil
}

// file adds the content of a regular file, and of the members of a thin archive. role describes the
// use of the file in the command. file returns the first bytes of the file.
func (k *keyer) file(role, name string) (head []byte, err error) {
	state, err := stateOf(name)
	if err != nil {
		return nil, err
	}
	if head, err = k.hash.file(role, name); err != nil {
		return nil, err
	}
	k.read = append(k.read, state)
	if bytes.HasPrefix(head, []byte("!<thin>\n")) {
		return head, k.members(name)
	}
	return head, nil
}

// members adds the files of the members of a thin archive.
func (k *keyer) members(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	archive, err := ar.Parse(data)
	if err != nil {
		return err
	}
	for member, err := range archive.Members() {
		if err != nil {
			return err
		}
		if !member.Thin {
			continue
		}
		head, err := k.file(member.Name, ar.MemberPath(name, member.Name))
		if err != nil || !isObject(head) {
			return fmt.Errorf("%s(%s) %w", name, member.Name, errUnknown)
		}
	}
	return nil
}

// linked is file for an input of the linker. It fails for text, which linkers read as a script that
// can name other files.
func (k *keyer) linked(role, name string) error {
	head, err := k.file(role, name)
	if err == nil && !isObject(head) && !bytes.HasPrefix(head, []byte("!<arch>\n")) && !bytes.HasPrefix(head, []byte("!<thin>\n")) {
		return errUnknown
	}
	return err
}

// isObject reports whether a file with these first bytes is ELF or bitcode.
func isObject(head []byte) bool {
	for _, magic := range []string{elf.Magic, "BC\xc0\xde", "\xde\xc0\x17\x0b"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}

// files adds the files that the words of a linker's command name: inputs, values of options, and
// libraries.
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
	return nil
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
	names := []string{"lib" + name + ".so", "lib" + name + ".a"}
	if exact, ok := strings.CutPrefix(name, ":"); ok {
		names = []string{exact}
	}
	found := false
	for _, dir := range search {
		for _, name := range names {
			name = filepath.Join(dir, name)
			err := k.linked(name, name)
			if err != nil && !missing(err) {
				return err
			}
			found = found || err == nil
		}
	}
	if !found {
		return errUnknown
	}
	return nil
}

// program adds a program and its shared libraries by their paths, sizes and times. A script is added
// by its content; the programs that it runs must be those that -### lists.
func (k *keyer) program(name string) error {
	real, err := filepath.EvalSymlinks(k.path(name))
	if err != nil {
		return err
	}
	if err := k.installed(real); err != nil {
		return err
	}
	f, err := os.Open(real)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return err
	}
	if bytes.HasPrefix(head[:], []byte("#!")) {
		_, err := k.file("script", real)
		return err
	}
	loader, err := loaderOf(f)
	if err != nil || loader == "" {
		return err
	}
	var printed bytes.Buffer
	list := process.Command{Args: []string{loader, "--list", real}, Env: k.link.Env, Dir: k.link.Dir, Stdout: &printed}
	if err := list.Run(k.ctx); err != nil {
		return err
	}
	for line := range strings.Lines(printed.String()) {
		if library, ok := loadedLibrary(line); !ok {
			continue
		} else if err := k.installed(library); err != nil {
			return err
		}
	}
	return nil
}

// installed adds a file by its path, size and time.
func (k *keyer) installed(name string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	state, err := stateOf(real)
	if err != nil {
		return err
	}
	k.hash.text(fmt.Sprintf("%s %d %d", real, state.size, state.modified))
	k.read = append(k.read, state)
	return nil
}

// loaderOf returns the program that loads the shared libraries of a 64-bit little-endian ELF program,
// or "" for one that has none.
func loaderOf(r io.ReaderAt) (string, error) {
	le, header := binary.LittleEndian, make([]byte, elf.HeaderSize)
	if _, err := r.ReadAt(header, 0); err != nil {
		return "", err
	}
	if string(header[:6]) != elf.Magic+"\x02\x01" || le.Uint16(header[54:]) != elf.SegmentSize {
		return "", errUnknown
	}
	table := make([]byte, elf.SegmentSize*int(le.Uint16(header[56:])))
	if _, err := r.ReadAt(table, int64(le.Uint64(header[32:]))); err != nil {
		return "", err
	}
	for ; len(table) > 0; table = table[elf.SegmentSize:] {
		if le.Uint32(table) == elf.PtInterp {
			name := make([]byte, min(le.Uint64(table[32:]), 4096))
			_, err := r.ReadAt(name, int64(le.Uint64(table[8:])))
			return string(bytes.TrimRight(name, "\x00")), err
		}
	}
	return "", nil
}

// loadedLibrary returns the path in a line of a loader's list: "NAME => PATH (ADDRESS)" or
// "PATH (ADDRESS)".
func loadedLibrary(line string) (path string, ok bool) {
	line = strings.TrimSpace(line)
	if _, after, found := strings.Cut(line, " => "); found {
		line = after
	}
	i := strings.LastIndex(line, " (")
	if i < 0 || !strings.HasPrefix(line, "/") {
		return "", false
	}
	return line[:i], true
}

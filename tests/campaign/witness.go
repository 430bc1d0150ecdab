package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The part witness runs the command lines of the part verbs, as processes, in a directory that is
// full of files of a user, and kills some of them. Afterwards, all files of the user must be
// unchanged.

// linkLines are command lines that only this part runs: they require a host linker.
var linkLines = []commandLine{
	{"text", "clang-linker-wrapper -r --host-triple=x86_64-unknown-linux-gnu --linker-path=/usr/bin/ld -o o1 REQUIRED", []string{"o1"}},
}

// usersNames returns names of files that a user, an editor or another program can create next to an
// output.
func usersNames(output string) []string {
	return []string{
		".offload-notes", ".offload-", ".offload", ".offload-1", ".offload-1x5v3k2j9q0ab", ".offload-1-2-3", ".offload-3w5e11264sgsf-1-1", "offload-link-1",
		output + ".isolated", output + "~", "#" + output + "#", ".#" + output, "." + output + ".swp", output + ".tmp", output + ".temp", "." + output + ".tmp",
		output + ".bak", output + ".orig", output + ".old", output + ".new", output + ".part", output + ".lock", output + ".o", output + ".d", output + ".img",
		output + ".hipfb", output + ".bc", output + ".s", output + ".rsp", output + ".kpack", output + ".json", output + ".1", output + "-1", "new-1", "arguments-1.rsp",
		"registration.o", "merged.o", "linked.hipfb", "linked.openmp", "a.out",
	}
}

// temporaryName matches the names of the program's temporary files and directories.
var temporaryName = regexp.MustCompile(`^\.offload-[0-9a-z]+-[0-9a-z]+-[0-9a-z]+$`)

// witness is a directory of a user.
type witness struct {
	*verbRun
	bin   string // directory with the names of the program
	users map[string]userFile
}

// userFile is the state of a file of the user.
type userFile struct {
	content  string
	mode     fs.FileMode
	modified time.Time
	inode    uint64
}

// newWitness prepares the directory.
func newWitness(c *campaign) (*witness, error) {
	r, err := newVerbRun(c)
	if err != nil {
		return nil, err
	}
	w := &witness{verbRun: r, bin: c.path("bin")}
	if err := os.MkdirAll(w.bin, 0o777); err != nil {
		return nil, err
	}
	for name := range tools {
		if err := os.Symlink(c.program, filepath.Join(w.bin, name)); err != nil {
			return nil, err
		}
	}
	require := exec.Command(c.program, "require", "--triple", "x86_64-unknown-linux-gnu", "--output", "REQUIRED", "name")
	require.Dir = w.dir
	if text, err := require.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return w, w.fill()
}

// fill writes the files of the user.
func (w *witness) fill() error {
	before := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	for _, output := range []string{"o1", "o2", "out/o1"} {
		for _, name := range usersNames(filepath.Base(output)) {
			path := filepath.Join(w.dir, filepath.Dir(output), name)
			if err := os.WriteFile(path, []byte("of the user: "+name), 0o640); err != nil {
				return err
			}
			if err := os.Chtimes(path, before, before); err != nil {
				return err
			}
		}
	}
	var err error
	w.users, err = w.state()
	return err
}

// state returns the state of all files and directories.
func (w *witness) state() (map[string]userFile, error) {
	found := map[string]userFile{}
	err := filepath.WalkDir(w.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.dir, path)
		if err != nil {
			return err
		}
		file := userFile{mode: info.Mode(), inode: info.Sys().(*syscall.Stat_t).Ino}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file.content, file.modified = string(data), info.ModTime()
		}
		found[name] = file
		return nil
	})
	return found, err
}

// watch runs a command line with an input. If kill names a system call, the process is killed at that
// call. watch returns the exit status, which is -1 for a killed process.
func (w *witness) watch(ctx context.Context, line *commandLine, input []byte, existing bool, kill string) (status int, err error) {
	good := w.seeds[line.format][w.m.Below(len(w.seeds[line.format]))].Data()
	if err := line.write(w.dir, input, good); err != nil {
		return 0, err
	}
	if existing { // outputs that are replaced
		for _, name := range line.outputs {
			if err := os.WriteFile(filepath.Join(w.dir, name), []byte("old"), 0o666); err != nil {
				return 0, err
			}
		}
	}
	before, err := w.state()
	if err != nil {
		return 0, err
	}
	words := strings.Fields(strings.ReplaceAll(line.words, "DIR/", w.dir+"/"))
	args := append([]string{filepath.Join(w.bin, words[0])}, words[1:]...)
	if kill != "" {
		inject := fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", kill, 1+w.m.Below(6))
		args = append([]string{"strace", "-f", "-qq", "-o", os.DevNull, "-e", inject, "--"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+w.c.path("tmp"))
	if err := os.MkdirAll(w.c.path("tmp"), 0o777); err != nil {
		return 0, err
	}
	text, err := cmd.CombinedOutput()
	w.c.runs.Add(1)
	if ctx.Err() != nil {
		return 0, nil
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	status = cmd.ProcessState.ExitCode()
	what := line.words
	if kill != "" {
		what += ", killed at " + kill
	}
	if strings.Contains(string(text), "goroutine ") {
		w.c.fault("%s: %s", what, text)
	}
	return status, w.compare(what, line, before, status == -1 || kill != "")
}

// compare compares the directory with its earlier state, and removes new files.
func (w *witness) compare(what string, line *commandLine, before map[string]userFile, killed bool) error {
	after, err := w.state()
	if err != nil {
		return err
	}
	for name, was := range before {
		now, left := after[name]
		switch {
		case slices.Contains(line.outputs, name):
		case !left:
			w.c.fault("%s: %s was deleted", what, name)
		case was != now:
			w.c.fault("%s: %s was changed: %v, then %v", what, name, was, now)
		}
	}
	for name := range after {
		_, old := before[name]
		path := filepath.Join(w.dir, name)
		switch {
		case old && !slices.Contains(line.outputs, name):
			continue
		case slices.Contains(line.outputs, name):
		case line.outputs == nil && (filepath.Dir(name) == "out" && !strings.HasPrefix(filepath.Base(name), ".") || name == "o1"):
		case killed && slices.ContainsFunc(strings.Split(filepath.Dir(name), "/"), temporaryName.MatchString): // in a temporary directory
		case killed && temporaryName.MatchString(filepath.Base(name)):
			if err := w.leftover(what, path); err != nil {
				return err
			}
		default:
			w.c.fault("%s: left the file %s", what, name)
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// leftover checks that a later process removes a temporary file of a killed process, if the program
// created it, and never a user's file with a similar name.
func (w *witness) leftover(what, path string) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err // a directory stays
	}
	before := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(path, before, before); err != nil {
		return err
	}
	output := filepath.Join(filepath.Dir(path), "replaced")
	if err := os.WriteFile(output, []byte("old"), 0o666); err != nil {
		return err
	}
	defer os.Remove(output)
	other := path + "0" // no name of the program
	if err := os.WriteFile(other, nil, 0o666); err != nil {
		return err
	}
	defer os.Remove(other)
	if err := os.Chtimes(other, before, before); err != nil {
		return err
	}
	later := exec.Command(w.c.program, "bundle", "--output", output, "--entry", "gfx906="+filepath.Join(w.dir, "REQUIRED"))
	if text, err := later.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	if _, err := os.Lstat(other); err != nil {
		w.c.fault("%s: a later process removed %s, which the program did not make", what, other)
	}
	_, inode, _ := strings.Cut(filepath.Base(path), "-")
	inode, _, _ = strings.Cut(inode, "-")
	if made := inode == strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 36); made {
		if _, err := os.Lstat(path); err == nil {
			w.c.fault("%s: a later process left %s", what, path)
		}
	}
	return nil
}

// killAt are the system calls at which processes are killed.
var killAt = []string{"linkat", "renameat2,renameat", "unlinkat,unlink", "openat", "pwrite64", "ftruncate", "copy_file_range", "close", "flock", "execve"}

// witnesses runs command lines in the directory of a user until the context ends.
func witnesses(ctx context.Context, c *campaign) error {
	w, err := newWitness(c)
	if err != nil {
		return err
	}
	lines := slices.Concat(commandLines, linkLines)
	for ctx.Err() == nil {
		line := &lines[w.m.Below(len(lines))]
		seeds := w.seeds[line.format]
		input := seeds[w.m.Below(len(seeds))].Data()
		kill := ""
		if w.m.Below(3) != 0 {
			kill = killAt[w.m.Below(len(killAt))]
		}
		if _, err := w.watch(ctx, line, input, w.m.Below(2) == 0, kill); err != nil {
			return err
		}
	}
	return nil
}

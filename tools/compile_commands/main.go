// Compile_commands writes compile_commands.json, from which clangd and other
// tools learn how sources are compiled, for all C++, HIP, CUDA and OpenMP sources
// of the workspace that it is called in:
//
//	bazel run @rules_offload//tools:compile_commands [-- FLAG_OR_TARGET...]
//
// The targets are those whose sources to write, //... by default. Flags are those
// of the build, such as --config=NAME: Bazel analyzes the targets with them. The
// variable BAZEL names the program to call for this, bazel by default.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compile_commands:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	workspace := os.Getenv("BUILD_WORKSPACE_DIRECTORY")
	if workspace == "" {
		return fmt.Errorf("BUILD_WORKSPACE_DIRECTORY is not set: start this program with `bazel run`")
	}
	b := bazel{program: os.Getenv("BAZEL"), workspace: workspace}
	if b.program == "" {
		b.program = "bazel"
	}
	var targets []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			b.flags = append(b.flags, arg)
		} else {
			targets = append(targets, arg)
		}
	}
	if len(targets) == 0 {
		targets = []string{"//..."}
	}
	execroot, err := b.output("info", "execution_root")
	if err != nil {
		return err
	}
	// Without dependencies, which would occur a second time for the execution platform.
	query := fmt.Sprintf(`mnemonic("^(%s)$", %s)`, strings.Join(mnemonics, "|"), strings.Join(targets, " + "))
	actions, failed := b.output("aquery", "--keep_going", "--output=jsonproto", "--include_param_files", "--noinclude_artifacts", query)
	graph := &actionGraph{}
	if err := json.Unmarshal(actions, graph); err != nil {
		if failed != nil {
			return failed
		}
		return fmt.Errorf("the output of `%s aquery`: %w", b.program, err)
	}
	if failed != nil && len(graph.Actions) == 0 {
		return failed
	}
	c := converter{workspace: workspace, execroot: string(bytes.TrimSpace(execroot)), resourceDir: resourceDir}
	entries := c.entries(graph)
	if len(entries) == 0 {
		return fmt.Errorf("no compilation of a C++, HIP, CUDA or OpenMP source for %s", strings.Join(targets, " "))
	}
	text, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(workspace, "compile_commands.json")
	if err := replace(name, append(text, '\n')); err != nil {
		return err
	}
	fmt.Printf("%s: %d compilations\n", name, len(entries))
	if failed != nil {
		fmt.Fprintln(os.Stderr, "compile_commands: targets with errors are missing:", failed)
	}
	return nil
}

// bazel calls Bazel in the workspace.
type bazel struct {
	program, workspace string
	flags              []string
}

// output returns what a command writes to standard output, also if the command fails. Its
// messages go to standard error.
func (b bazel) output(command string, args ...string) ([]byte, error) {
	cmd := exec.Command(b.program, append(append([]string{command}, b.flags...), args...)...)
	cmd.Dir, cmd.Stderr = b.workspace, os.Stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s %s: %w; if bazel has a different name on this machine, set BAZEL", b.program, command, err)
	case err != nil:
		return out, fmt.Errorf("%s %s: %w", b.program, command, err)
	}
	return out, nil
}

// resourceDir returns the directory of a compiler's own headers.
func resourceDir(compiler string) (string, error) {
	out, err := exec.Command(compiler, "-print-resource-dir").Output()
	return strings.TrimSpace(string(out)), err
}

// replace writes a file. On failure, the old contents remain.
func replace(name string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".compile_commands-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(content); err != nil {
		file.Close()
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

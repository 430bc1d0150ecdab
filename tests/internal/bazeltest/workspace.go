// Package bazeltest runs a real Bazel on small workspaces that use these rules.
//
// Under `bazel test` it uses the Bazel on PATH and the files that the test rule
// has as data: //cmd/offload in the variable OFFLOAD, //rules:module in
// RULES_MODULE. Under `go test` it uses bazelw and builds the program itself.
// The program is a prebuilt toolchain of the workspace: no build compiles it.
package bazeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

// Workspace is a directory with a MODULE.bazel that depends on the rules, and a separate Bazel
// server.
type Workspace struct {
	Dir string

	t       testing.TB
	module  string   // MODULE.bazel without the text of Module
	outputs string   // Bazel's directory, outside the workspace, so that //... does not include it
	command []string // the command that runs Bazel
	env     []string
}

// New makes a workspace in dir with the given files, beside the MODULE.bazel
// and the toolchain package `tools` that every workspace has. The Bazel server
// ends with the test.
func New(t testing.TB, dir string, contents map[string]string) *Workspace {
	t.Helper()
	project, program := locate(t)
	w := &Workspace{Dir: dir, t: t, module: moduleFile(project)}
	w.Module("")
	w.Write("tools/BUILD.bazel", ToolchainFile)
	w.copyFile(program, "tools/offload", 0o755)
	for name, content := range contents {
		w.Write(name, content)
	}
	w.findBazel(project)
	t.Cleanup(w.end)
	return w
}

// end stops the Bazel server and removes its files.
func (w *Workspace) end() {
	if _, err := w.run(context.Background(), "clean", "--expunge"); err != nil {
		w.t.Error(err)
	}
	_ = filepath.WalkDir(w.outputs, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o755) // Bazel makes its directories read-only
		}
		return nil
	})
	if err := os.RemoveAll(w.outputs); err != nil {
		w.t.Error(err)
	}
}

func moduleFile(project string) string {
	return fmt.Sprintf(`module(name = "under_test")

bazel_dep(name = "platforms", version = "0.0.10")
bazel_dep(name = "rules_cc", version = "0.0.17")
bazel_dep(name = "rules_offload")
local_path_override(
    module_name = "rules_offload",
    path = %q,
)

offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
use_repo(offload, "offload_system_clang")

register_toolchains("//tools:all", "@offload_system_clang//:all")
`, project)
}

// Module appends a text to MODULE.bazel, instead of that of an earlier call.
func (w *Workspace) Module(text string) { w.Write("MODULE.bazel", w.module+text) }

// AddModule makes a directory of the workspace a module that the workspace depends on. It appends text to MODULE.bazel, as
// Module does.
func (w *Workspace) AddModule(name, text string) {
	w.Write(name+"/MODULE.bazel", fmt.Sprintf(`module(name = %q)

bazel_dep(name = "platforms", version = "0.0.10")
bazel_dep(name = "rules_cc", version = "0.0.17")
`, name))
	w.Write(".bazelignore", name+"\n")
	w.Module(fmt.Sprintf(`
bazel_dep(name = %q)
local_path_override(
    module_name = %[1]q,
    path = %[1]q,
)
`, name) + text)
}

// ToolchainFile is a BUILD file with toolchains for the program offload in its package.
const ToolchainFile = `load("@rules_offload//rules:toolchains.bzl", "offload_program_toolchain", "offload_target_program_toolchain")

offload_program_toolchain(
    name = "prebuilt",
    program = "offload",
)

toolchain(
    name = "prebuilt_toolchain",
    toolchain = ":prebuilt",
    toolchain_type = "@rules_offload//rules/toolchain:program_type",
)

offload_target_program_toolchain(
    name = "target_prebuilt",
    program = "offload",
)

toolchain(
    name = "target_prebuilt_toolchain",
    toolchain = ":target_prebuilt",
    toolchain_type = "@rules_offload//rules/toolchain:target_program_type",
)
`

// locate returns the directory of the project's sources and the program.
func locate(t testing.TB) (project, program string) {
	t.Helper()
	program = llvm.Offload(t)
	if !root.Bazel() {
		project, err := root.Project()
		if err != nil {
			t.Fatal(err)
		}
		return project, program
	}
	module, err := root.Runfile("RULES_MODULE")
	if err != nil {
		t.Fatal(err)
	}
	project = t.TempDir()
	if err := copyTree(filepath.Dir(module), project); err != nil {
		t.Fatal(err)
	}
	return project, program
}

// copyTree copies a directory of runfiles, whose files are links.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), content, 0o644)
	})
}

func (w *Workspace) findBazel(project string) {
	w.t.Helper()
	w.outputs = w.t.TempDir()
	w.env = os.Environ()
	if !root.Bazel() {
		w.command = []string{filepath.Join(project, "bazelw")}
		return
	}
	bazel, err := exec.LookPath("bazel")
	if err != nil {
		w.t.Fatalf("this test runs Bazel, which is not on its PATH %s", os.Getenv("PATH"))
	}
	w.command = []string{bazel, "--output_user_root=" + w.outputs}
	// A test has no HOME, and Bazel interprets these variables as its own in a test.
	if me, err := user.Current(); err == nil {
		w.env = append(w.env, "HOME="+me.HomeDir, "USER="+me.Username)
	}
	for _, name := range []string{"TEST_TMPDIR", "RUNFILES_DIR", "TEST_SRCDIR", "JAVA_RUNFILES", "PYTHON_RUNFILES"} {
		for i := len(w.env) - 1; i >= 0; i-- {
			if strings.HasPrefix(w.env[i], name+"=") {
				w.env = append(w.env[:i], w.env[i+1:]...)
			}
		}
	}
}

// Startup adds startup options to all later calls of Bazel.
func (w *Workspace) Startup(options ...string) { w.command = append(w.command, options...) }

// Write writes a file in the workspace.
func (w *Workspace) Write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// WriteProgram writes an executable file in the workspace.
func (w *Workspace) WriteProgram(name, content string) {
	w.t.Helper()
	w.Write(name, content)
	if err := os.Chmod(filepath.Join(w.Dir, name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *Workspace) copyFile(from, to string, mode fs.FileMode) {
	w.t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Write(to, string(content))
	if err := os.Chmod(filepath.Join(w.Dir, to), mode); err != nil {
		w.t.Fatal(err)
	}
}

// Read returns an output, by its path below bazel-bin.
func (w *Workspace) Read(name string) []byte {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Dir, "bazel-bin", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return content
}

// Execroot returns the working directory of actions that run without isolation.
func (w *Workspace) Execroot() string {
	w.t.Helper()
	info := w.Bazel("info", "execution_root")
	return strings.TrimSpace(info.Stdout)
}

// Result is the result of a Bazel command.
type Result struct {
	Output string // its output, including messages
	Stdout string // its output without messages
	// Spawns are the actions that ran or came from a cache, in no particular order.
	Spawns []Spawn
}

// Spawn is one action of a build.
type Spawn struct {
	Mnemonic string
	Runner   string // linux-sandbox, worker, multiplex-worker, remote, disk cache hit …
	Args     []string
	Env      []string // NAME=VALUE
	Inputs   []Input  // all of them, those of runfiles trees included
	Outputs  []string // paths in the execution root
	// Properties are those of the execution platform and of exec_properties.
	Properties map[string]string
}

// Input is an input file of an action.
type Input struct {
	Path string // in the execution root
	Size int64  // in bytes
}

// Count returns the number of spawns with a mnemonic, or of all if it is empty.
func (r *Result) Count(mnemonic string) int {
	n := 0
	for _, spawn := range r.Spawns {
		if mnemonic == "" || spawn.Mnemonic == mnemonic {
			n++
		}
	}
	return n
}

// Bazel runs a command and fails the test if Bazel does.
func (w *Workspace) Bazel(args ...string) *Result {
	w.t.Helper()
	result, err := w.Try(args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// Try runs a command such as "build", "//:all".
func (w *Workspace) Try(args ...string) (*Result, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	return w.run(ctx, args...)
}

func (w *Workspace) run(ctx context.Context, args ...string) (*Result, error) {
	log := filepath.Join(w.Dir, ".execution.json")
	_ = os.Remove(log)
	command := append([]string{}, w.command...)
	command = append(command, args[0])
	if args[0] == "build" || args[0] == "test" || args[0] == "run" {
		command = append(command, "--execution_log_json_file="+log, "--color=no", "--curses=no")
	}
	command = append(command, args[1:]...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = w.Dir, w.env
	var stdout bytes.Buffer
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &output), &output
	cmd.WaitDelay = 10 * time.Second // a killed client can leave the streams open
	err := cmd.Run()
	result := &Result{Output: output.String(), Stdout: stdout.String()}
	if err != nil {
		return result, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, result.Output)
	}
	result.Spawns, err = readLog(log)
	return result, err
}

// lockedBuffer collects the data of two streams.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// Command is the command line of an action, with the arguments in parameter files.
type Command struct {
	Mnemonic     string
	Arguments    []string
	Requirements map[string]string // of the action for its execution
	Platform     string            // label of the execution platform
	Inputs       []string          // paths of all inputs
}

// Commands returns those of the actions that match an aquery expression.
func (w *Workspace) Commands(expression string, flags ...string) []Command {
	w.t.Helper()
	query := append([]string{"aquery", expression, "--output=jsonproto", "--include_param_files"}, flags...)
	result := w.Bazel(query...)
	var graph actionGraph
	if err := json.Unmarshal([]byte(result.Stdout), &graph); err != nil {
		w.t.Fatalf("aquery: %v\n%.2000s", err, result.Output)
	}
	inputs := graph.inputs()
	commands := make([]Command, len(graph.Actions))
	for i, action := range graph.Actions {
		commands[i] = Command{Mnemonic: action.Mnemonic, Arguments: action.Arguments, Requirements: map[string]string{}, Platform: action.ExecutionPlatform}
		for _, file := range action.ParamFiles {
			commands[i].Arguments = append(commands[i].Arguments, file.Arguments...)
		}
		for _, requirement := range action.ExecutionInfo {
			commands[i].Requirements[requirement.Key] = requirement.Value
		}
		for _, id := range action.InputDepSetIds {
			commands[i].Inputs = append(commands[i].Inputs, inputs(id)...)
		}
	}
	return commands
}

// actionGraph is the output of aquery.
type actionGraph struct {
	Actions []struct {
		Mnemonic          string
		Arguments         []string
		ParamFiles        []struct{ Arguments []string }
		ExecutionInfo     []struct{ Key, Value string }
		ExecutionPlatform string
		InputDepSetIds    []int
	}
	Artifacts     []struct{ ID, PathFragmentID int }
	DepSetOfFiles []struct {
		ID                  int
		DirectArtifactIds   []int
		TransitiveDepSetIds []int
	}
	PathFragments []struct {
		ID, ParentID int
		Label        string
	}
}

// inputs returns a function that returns the paths of a set of files.
func (g *actionGraph) inputs() func(id int) []string {
	fragments := map[int]int{}
	for i, fragment := range g.PathFragments {
		fragments[fragment.ID] = i
	}
	var path func(id int) string
	path = func(id int) string {
		fragment := g.PathFragments[fragments[id]]
		if fragment.ParentID == 0 {
			return fragment.Label
		}
		return path(fragment.ParentID) + "/" + fragment.Label
	}
	artifacts := map[int]string{}
	for _, artifact := range g.Artifacts {
		artifacts[artifact.ID] = path(artifact.PathFragmentID)
	}
	sets := map[int]int{}
	for i, set := range g.DepSetOfFiles {
		sets[set.ID] = i
	}
	return func(id int) []string {
		var files []string
		seen := map[int]bool{id: true}
		for pending := []int{id}; len(pending) > 0; pending = pending[1:] {
			set := g.DepSetOfFiles[sets[pending[0]]]
			for _, artifact := range set.DirectArtifactIds {
				files = append(files, artifacts[artifact])
			}
			for _, below := range set.TransitiveDepSetIds {
				if !seen[below] {
					seen[below] = true
					pending = append(pending, below)
				}
			}
		}
		return files
	}
}

// readLog reads an execution log, a sequence of JSON objects.
func readLog(name string) ([]Spawn, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	var spawns []Spawn
	for decoder := json.NewDecoder(file); decoder.More(); {
		var record struct {
			Mnemonic             string
			Runner               string
			CommandArgs          []string
			EnvironmentVariables []struct{ Name, Value string }
			Inputs               []struct {
				Path   string
				Digest struct {
					SizeBytes int64 `json:",string"`
				}
			}
			ListedOutputs []string
			Platform      struct {
				Properties []struct{ Name, Value string }
			}
		}
		if err := decoder.Decode(&record); err != nil {
			return nil, fmt.Errorf("execution log: %w", err)
		}
		spawn := Spawn{Mnemonic: record.Mnemonic, Runner: record.Runner, Args: record.CommandArgs, Outputs: record.ListedOutputs, Properties: map[string]string{}}
		for _, property := range record.Platform.Properties {
			spawn.Properties[property.Name] = property.Value
		}
		for _, input := range record.Inputs {
			spawn.Inputs = append(spawn.Inputs, Input{Path: input.Path, Size: input.Digest.SizeBytes})
		}
		for _, variable := range record.EnvironmentVariables {
			spawn.Env = append(spawn.Env, variable.Name+"="+variable.Value)
		}
		spawns = append(spawns, spawn)
	}
	return spawns, nil
}

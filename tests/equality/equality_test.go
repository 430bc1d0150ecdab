// Package equality builds every rule with every way in which Bazel can run an action, in two
// directories, and compares the outputs.
package equality

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

func TestMain(m *testing.M) {
	llvm.Main(m, "buildbox-casd")
}

// strategy is one way to run actions.
type strategy struct {
	name    string
	flags   []string
	program []string // runners that actions of the program may have
	others  []string // runners that other actions may have; the same if nil
	says    string   // a required part of Bazel's output, which distinguishes the kinds of workers
	mapped  bool     // whether the paths of outputs are the same in all configurations
	raced   bool     // whether actions run locally and remotely at the same time
}

// forProgram returns a flag for each mnemonic of the program.
func forProgram(strategy string) []string {
	var flags []string
	for mnemonic := range actions {
		if ofProgram(mnemonic) {
			flags = append(flags, "--strategy="+mnemonic+"="+strategy)
		}
	}
	slices.Sort(flags)
	return flags
}

func TestEveryStrategyGivesTheSameBytes(t *testing.T) {
	server, err := reapi.Start(context.Background(), reapi.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})

	var (
		sandbox = []string{"linux-sandbox"}
		hit     = []string{"disk cache hit"}
		disk    = "--disk_cache=" + t.TempDir()
		// Outputs of clang come from the disk cache, outputs of the program do not.
		workers = append(forProgram("worker"), "--spawn_strategy=linux-sandbox", "--worker_verbose", disk, "--remote_download_outputs=all",
			"--modify_execution_info=^(?!"+ofClang+")Offload.*=+no-cache,Genrule=+no-cache")
		remote = []string{"--remote_executor=" + server.Address(), "--remote_download_outputs=all", "--noremote_local_fallback", "--jobs=8"}
	)
	worker := func(flags ...string) []string { return append(slices.Clip(workers), flags...) }
	diskCache := strategy{name: "disk cache", flags: []string{"--spawn_strategy=linux-sandbox", disk, "--remote_download_outputs=all"}, program: sandbox}
	remotely := strategy{name: "remote", flags: append(slices.Clip(remote), "--spawn_strategy=remote"), program: []string{"remote"}}
	strategies := func(first bool) []strategy {
		if !first {
			// The cache has the results of another directory: no action may depend on its
			// directory.
			diskCache.program, remotely.program = hit, []string{"remote cache hit"}
		}
		list := []strategy{
			diskCache,
			{name: "sandbox", flags: []string{"--spawn_strategy=linux-sandbox"}, program: sandbox},
			{name: "worker", flags: worker("--noworker_multiplex"), program: []string{"worker"}, others: append(hit, sandbox...),
				says: "Created new non-sandboxed OffloadBundle worker"},
			{name: "sandboxed worker", flags: worker("--noworker_multiplex", "--worker_sandboxing"), program: []string{"worker"}, others: append(hit, sandbox...),
				says: "Created new sandboxed OffloadBundle worker"},
			{name: "multiplex worker", flags: worker("--worker_multiplex"), program: []string{"worker"}, others: append(hit, sandbox...),
				says: "Created new non-sandboxed OffloadBundle multiplex-worker"},
			{name: "sandboxed multiplex worker", flags: worker("--worker_multiplex", "--worker_sandboxing", "--experimental_worker_multiplex_sandboxing"),
				program: []string{"worker"}, others: append(hit, sandbox...), says: "Created new sandboxed OffloadBundle multiplex-worker"},
			{name: "path mapping", flags: []string{"--spawn_strategy=linux-sandbox", "--experimental_output_paths=strip"}, program: sandbox, mapped: true},
			remotely,
			{name: "remote cache", flags: []string{"--remote_cache=" + server.Address(), "--remote_download_outputs=all", "--spawn_strategy=linux-sandbox"},
				program: []string{"remote cache hit"}},
			{name: "remote, path mapping", flags: append(slices.Clip(remote), "--spawn_strategy=remote", "--experimental_output_paths=strip"),
				program: []string{"remote", "remote cache hit"}, mapped: true},
		}
		if first {
			// Both ways at the same time: each action takes the first result. One round is enough,
			// because it runs everything twice.
			list = append(list, strategy{name: "dynamic", flags: append(append(slices.Clip(remote), forProgram("dynamic")...), "--internal_spawn_scheduler",
				"--spawn_strategy=dynamic", "--dynamic_local_strategy=worker,linux-sandbox", "--dynamic_remote_strategy=remote",
				"--experimental_local_execution_delay=0", "--noremote_accept_cached",
				"--experimental_worker_cancellation", "--experimental_worker_multiplex_sandboxing"),
				program: []string{"worker", "linux-sandbox", "remote"}, raced: true})
		}
		return list
	}

	var outputs []string // of all actions, below the execution root
	var want map[string]string
	for _, folder := range []string{"one", "another/folder"} {
		workspace := bazeltest.New(t, filepath.Join(t.TempDir(), folder), everyRule())
		places := machinePlaces(t, workspace)
		for _, strategy := range strategies(want == nil) {
			t.Run(folder+"/"+strategy.name, func(t *testing.T) {
				workspace.Bazel("clean")
				before := server.Executions()
				result := workspace.Bazel(append([]string{"build", "//:all"}, strategy.flags...)...)
				executed := server.Executions() - before

				checkRunners(t, result, strategy)
				if !strings.Contains(result.Output, strategy.says) {
					t.Errorf("Bazel does not say %q:\n%s", strategy.says, result.Output)
				}
				remotely := int64(count(result, "remote"))
				if executed != remotely && !(strategy.raced && executed > remotely) {
					t.Errorf("%d actions were executed remotely; %d of the build say so", executed, remotely)
				}
				if strategy.raced {
					t.Logf("%d actions were sent for execution; %d of %d were faster there", executed, remotely, len(result.Spawns))
				}
				for _, spawn := range result.Spawns {
					checkSpawn(t, spawn, places, strategy.mapped)
				}

				if outputs == nil {
					outputs = outputsOf(t, workspace, result)
				}
				got := checksums(t, workspace, outputs, places)
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("bytes differ from the first build (-first +this):\n%s", diff)
				}

				again := workspace.Bazel(append([]string{"build", "//:all"}, strategy.flags...)...)
				for _, spawn := range again.Spawns {
					// Bazel does not write lists of unused headers from another machine. With
					// --remote_download_outputs=all, it downloads these results again.
					if !slices.ContainsFunc(spawn.Outputs, isList) || strategy.name == "sandbox" || strategy.name == "path mapping" {
						t.Errorf("the second build was not empty: %v", spawn)
					}
				}
			})
		}
	}
}

// outputsOf returns the paths of the outputs of all actions of a build.
func outputsOf(t *testing.T, workspace *bazeltest.Workspace, result *bazeltest.Result) (outputs []string) {
	t.Helper()
	for _, spawn := range result.Spawns {
		for _, name := range spawn.Outputs {
			// Lists of unused headers from a cache or another machine are only in Bazel's memory.
			if !isList(name) {
				outputs = append(outputs, filesOf(t, workspace.Dir, name)...)
			}
		}
	}
	return outputs
}

// checksums returns the checksums of outputs by path. None of them may contain one of places.
func checksums(t *testing.T, workspace *bazeltest.Workspace, outputs, places []string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for _, name := range outputs {
		content, err := os.ReadFile(filepath.Join(workspace.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			if strings.Contains(string(content), place) {
				t.Errorf("%s has the path %s in it", name, place)
			}
		}
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return sums
}

// isList reports whether an output is a list of unused headers.
func isList(name string) bool { return strings.HasSuffix(name, ".unused") }

// machinePlaces are the directories that neither command lines nor outputs may name.
func machinePlaces(t *testing.T, workspace *bazeltest.Workspace) []string {
	t.Helper()
	execroot := workspace.Execroot()
	base, _, found := strings.Cut(execroot, "/execroot/")
	if !found {
		t.Fatalf("what Bazel calls the execution root is not one: %s", execroot)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return []string{workspace.Dir, base, me.HomeDir + "/"}
}

func count(result *bazeltest.Result, runner string) int {
	n := 0
	for _, spawn := range result.Spawns {
		if spawn.Runner == runner {
			n++
		}
	}
	return n
}

func checkRunners(t *testing.T, result *bazeltest.Result, strategy strategy) {
	t.Helper()
	got := map[string]int{}
	for _, spawn := range result.Spawns {
		got[spawn.Mnemonic]++
		runners := strategy.program
		if !ofProgram(spawn.Mnemonic) && strategy.others != nil {
			runners = strategy.others
		}
		if !slices.Contains(runners, spawn.Runner) {
			t.Errorf("%s was run by %s, want %s", spawn.Mnemonic, spawn.Runner, strings.Join(runners, " or "))
		}
	}
	if diff := cmp.Diff(actions, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// hostEnv is the environment that the C++ toolchain sets for compilations, and therefore for those
// of host code.
var hostEnv = []string{"PWD=/proc/self/cwd"}

// checkSpawn checks that an action of the rules uses no environment but hostEnv, and that its
// command line names no directory of this machine, and no configuration if paths are mapped.
func checkSpawn(t *testing.T, spawn bazeltest.Spawn, places []string, mapped bool) {
	t.Helper()
	if !strings.HasPrefix(spawn.Mnemonic, "Offload") {
		return
	}
	mapped = mapped && mapsPaths(spawn.Mnemonic)
	if !slices.Equal(spawn.Env, hostEnv) && len(spawn.Env) > 0 {
		t.Errorf("%s has the environment %s", spawn.Mnemonic, spawn.Env)
	}
	for _, arg := range spawn.Args {
		for _, place := range places {
			if strings.Contains(arg, place) {
				t.Errorf("%s: the argument %s has the path %s in it", spawn.Mnemonic, arg, place)
			}
		}
		if _, path, found := strings.Cut(arg, "bazel-out/"); found && strings.HasPrefix(path, "cfg/") != mapped {
			t.Errorf("%s: path mapping is %v, and there is the argument %s", spawn.Mnemonic, mapped, arg)
		}
	}
}

// filesOf returns an output, or the files of one that is a directory.
func filesOf(t *testing.T, dir, name string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

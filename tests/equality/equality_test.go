// Package equality builds the same bundles in every way Bazel can run an
// action, in two folders, and compares the bytes.
package equality

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/tests/bazeltest"
	"github.com/rules-offload/rules_offload/tests/llvm"
	"github.com/rules-offload/rules_offload/tests/remote/reapi"
)

// actions is the number of actions of the workspace: 2 sources and a link for 3
// targets, a bundle, its check, an unbundling.
const actions = 3*(2+1) + 3

// outputs are what is compared.
var outputs = []string{
	"kernels/gfx90a_xnack+.co",
	"kernels/gfx90a_xnack-.co",
	"kernels/gfx1100.co",
	"fat.hipfb",
	"single/gfx90a_xnack-.co",
	"single/gfx1100.co",
}

func TestMain(m *testing.M) {
	llvm.Main(m, "buildbox-casd")
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

	worker := []string{"--strategy=OffloadBundle=worker", "--strategy=OffloadUnbundle=worker", "--strategy=OffloadCheck=worker", "--worker_verbose"}
	sandbox := []string{"--strategy=OffloadBundle=linux-sandbox", "--strategy=OffloadUnbundle=linux-sandbox", "--strategy=OffloadCheck=linux-sandbox"}
	strategies := []struct {
		name   string
		flags  []string
		runner string // that every action of the program must have
		says   string // what Bazel's output must have, to tell the kinds of workers apart
	}{
		{"sandbox", append(sandbox, "--spawn_strategy=linux-sandbox"), "linux-sandbox", ""},
		{"worker", append(worker, "--noworker_multiplex"), "worker", "Created new non-sandboxed OffloadBundle worker"},
		{"multiplex worker", append(worker, "--worker_multiplex"), "worker", "Created new non-sandboxed OffloadBundle multiplex-worker"},
		{
			"sandboxed multiplex worker",
			append(worker, "--worker_multiplex", "--worker_sandboxing", "--experimental_worker_multiplex_sandboxing"),
			"worker", "Created new sandboxed OffloadBundle multiplex-worker",
		},
		{"remote", []string{"--remote_executor=" + server.Address(), "--spawn_strategy=remote"}, "remote", ""},
		// The results are there already, from another folder: nothing in an action depends on where it ran.
		{"remote cache", []string{"--remote_cache=" + server.Address(), "--spawn_strategy=linux-sandbox"}, "remote cache hit", ""},
	}

	var want map[string]string
	folders := []string{"one", "another/folder"}
	for _, folder := range folders {
		workspace := bazeltest.New(t, filepath.Join(t.TempDir(), folder), bazeltest.Kernels())
		for _, strategy := range strategies {
			t.Run(folder+"/"+strategy.name, func(t *testing.T) {
				workspace.Bazel("clean")
				before := server.Executions()
				result := workspace.Bazel(append([]string{"build", "//:all"}, strategy.flags...)...)
				executed := server.Executions() - before

				runner, remotely := strategy.runner, int64(0)
				if runner == "remote" && folder == folders[0] {
					remotely = actions
				} else if runner == "remote" {
					runner = "remote cache hit"
				}
				for _, spawn := range result.Spawns {
					if spawn.Runner != runner && (spawn.Mnemonic == "OffloadBundle" || spawn.Mnemonic == "OffloadUnbundle" || runner != "worker") {
						t.Errorf("%s was run by %s, want %s", spawn.Mnemonic, spawn.Runner, runner)
					}
				}
				if got := result.Count(""); got != actions {
					t.Errorf("%d actions, want %d", got, actions)
				}
				if executed != remotely {
					t.Errorf("%d actions were executed remotely, want %d", executed, remotely)
				}
				if !strings.Contains(result.Output, strategy.says) {
					t.Errorf("Bazel does not say %q:\n%s", strategy.says, result.Output)
				}

				got := map[string]string{}
				for _, name := range outputs {
					got[name] = fmt.Sprintf("%x", sha256.Sum256(workspace.Read(name)))
				}
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("bytes differ from the first build (-first +this):\n%s", diff)
				}
			})
		}
	}
}

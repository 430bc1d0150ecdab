// Package gputests runs tests that need a GPU on a machine with eight pretended ones.
package gputests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

func TestMain(m *testing.M) { llvm.Main(m, "clang") }

const buildFile = `load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_offload//rules:defs.bzl", "hip_test")

cc_library(name = "no_runtime")

hip_test(
    name = "shards_test",
    size = "small",
    srcs = ["main.hip"],
    args = ["--quick"],
    env = {"LOCKS": "DIR"},
    exec_properties = {"Pool": "mi300"},
    library_exec_properties = {"Pool": "cpu"},
    offload_archs = ["gfx942"],
    shard_count = 16,
    tags = ["no-remote"],
)

hip_test(
    name = "two_test",
    size = "small",
    srcs = ["main.hip"],
    args = ["--quick"],
    env = {"LOCKS": "DIR"},
    gpus = 2,
    offload_archs = ["gfx942"],
)
`

// mainSource is a test that fails if another one has its GPUs: while it runs, it owns a directory for each.
const mainSource = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (const char *file = getenv("TEST_SHARD_STATUS_FILE")) fclose(fopen(file, "w"));
  std::string gpus = getenv("ROCR_VISIBLE_DEVICES"), left = getenv("HIP_VISIBLE_DEVICES");
  printf("ROCR %s HIP %s OFFLOAD %s\n", gpus.c_str(), left.c_str(), getenv("OFFLOAD_GPUS"));
  if (argc != 2 || strcmp(argv[1], "--quick") || left != (gpus.size() == 1 ? "0" : "0,1")) return 1;
  for (char gpu : gpus)
    if (gpu != ',' && mkdir((getenv("LOCKS") + std::string("/used") + gpu).c_str(), 0777)) return perror("another test has the GPU"), 1;
  usleep(300000);
  for (char gpu : gpus)
    if (gpu != ',' && rmdir((getenv("LOCKS") + std::string("/used") + gpu).c_str())) return perror("rmdir"), 1;
}
`

// TestGPUs runs sixteen shards at a time, and a test for two GPUs, with eight pretended GPUs.
func TestGPUs(t *testing.T) {
	locks := t.TempDir()
	w := bazeltest.New(t, t.TempDir(), map[string]string{
		"BUILD.bazel": strings.ReplaceAll(buildFile, "DIR", locks),
		"main.hip":    mainSource,
	})
	flags := []string{
		"test", "//:shards_test", "//:two_test",
		"--@rules_offload//rules/settings:hip_runtime=//:no_runtime",
		"--sandbox_add_mount_pair=" + locks, "--sandbox_writable_path=" + locks,
		"--run_under=@rules_offload//rules/toolchain:program on-gpu --gpus=8 --lock-dir=" + locks + " --",
	}
	// A machine that does not say how many GPUs it has.
	if result, err := w.Try(flags...); err == nil || !strings.Contains(result.Output, "Resource gpu is not being tracked") {
		t.Errorf("without --local_resources: %v\n%s", err, result.Output)
	}

	// More tests than GPUs run at a time, so that some of them wait.
	result := w.Bazel(append(flags, "--jobs=20", "--local_resources=cpu=20", "--local_resources=gpu=18", "--local_resources=memory=20000")...)
	used := map[string]bool{}
	for name, want := range map[string]*regexp.Regexp{
		"shards_test/shard_*_of_16": regexp.MustCompile(`(?s)offload on-gpu: amd GPU ([0-7]) of 8\n.*ROCR ([0-7]) HIP 0 OFFLOAD 1\n`),
		"two_test":                  regexp.MustCompile(`(?s)offload on-gpu: amd GPU ([0-7],[0-7]) of 8\n.*ROCR ([0-7],[0-7]) HIP 0,1 OFFLOAD 2\n`),
	} {
		logs, err := filepath.Glob(filepath.Join(w.Dir, "bazel-testlogs", name, "test.log"))
		if err != nil || len(logs) == 0 || name != "two_test" && len(logs) != 16 {
			t.Fatalf("%s: %d logs, %v", name, len(logs), err)
		}
		for _, log := range logs {
			content, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			match := want.FindSubmatch(content)
			if match == nil || string(match[1]) != string(match[2]) {
				t.Errorf("%s: %s", log, content)
				continue
			}
			used[string(match[1])] = true
		}
	}
	if len(used) < 3 {
		t.Errorf("the tests used the GPUs %v, expected several of them", used)
	}

	pools := map[string]map[string]bool{}
	for _, spawn := range result.Spawns {
		if pools[spawn.Mnemonic] == nil {
			pools[spawn.Mnemonic] = map[string]bool{}
		}
		pools[spawn.Mnemonic][spawn.Properties["Pool"]] = true
	}
	if !pools["TestRunner"]["mi300"] || pools["TestRunner"]["cpu"] {
		t.Errorf("the tests ran in the pools %v, want mi300", pools["TestRunner"])
	}
	result = w.Bazel("build", "//:shards_test", "--@rules_offload//rules/settings:hip_runtime=//:no_runtime", "--copt=-DAGAIN")
	for _, spawn := range result.Spawns {
		if pool := spawn.Properties["Pool"]; pool == "mi300" {
			t.Errorf("%s is for the pool of the test", spawn.Mnemonic)
		} else if strings.HasPrefix(spawn.Mnemonic, "OffloadHip") && pool != "cpu" {
			t.Errorf("%s is for the pool %q, want cpu", spawn.Mnemonic, pool)
		}
	}
}

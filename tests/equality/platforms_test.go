package equality

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// machinesFile declares two execution platforms: one for C++, without a device compiler, and one that has only
// the device toolchain and a program of its own. Without a CPU, no C++ toolchain runs on it.
const machinesFile = `load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_offload//rules:toolchains.bzl", "offload_program_toolchain")

constraint_setting(name = "machine")

[
    constraint_value(
        name = "is_" + machine,
        constraint_setting = ":machine",
    )
    for machine in ["cc", "device"]
]

platform(
    name = "cc",
    constraint_values = [":is_cc"],
    exec_properties = {"machine": "cc"},
    parents = ["@platforms//host"],
)

platform(
    name = "device",
    constraint_values = [
        ":is_device",
        "@platforms//os:linux",
    ],
    exec_properties = {"machine": "device"},
)

toolchain(
    name = "compiler_toolchain",
    exec_compatible_with = [":is_device"],
    toolchain = "@offload_system_clang//:clang",
    toolchain_type = "@rules_offload//rules/toolchain:device_type",
)

offload_program_toolchain(
    name = "program",
    program = "offload",
)

toolchain(
    name = "program_toolchain",
    exec_compatible_with = [":is_device"],
    toolchain = ":program",
    toolchain_type = "@rules_offload//rules/toolchain:program_type",
)

cc_library(
    name = "host",
    srcs = ["host.cc"],
)
`

// twoMachines are the flags with which only the platform device has a device compiler.
var twoMachines = []string{
	"--extra_execution_platforms=//machines:cc,//machines:device",
	"--extra_toolchains=//machines:all",
	"--@rules_offload//rules/settings:device_compiler=none_of_the_system",
}

// machineOf returns the execution platform of an action and the program of that platform.
func machineOf(mnemonic string) (platform, program string) {
	if strings.HasPrefix(mnemonic, "Offload") && groupOf(mnemonic) != "bundle" {
		return "device", "machines/offload"
	}
	return "cc", "tools/offload"
}

// testMachines checks that each action has the execution platform and the program of its exec group, and that the
// outputs are those of one, a build of ofEachGroup with one execution platform.
func testMachines(t *testing.T, workspace *bazeltest.Workspace, one *bazeltest.Result) {
	program, err := os.ReadFile(filepath.Join(workspace.Dir, "tools", "offload"))
	if err != nil {
		t.Fatal(err)
	}
	workspace.WriteProgram("machines/offload", string(program))
	workspace.Write("machines/BUILD.bazel", machinesFile)
	workspace.Write("machines/host.cc", "int host() { return 1; }\n")

	seen := map[string]int{}
	for _, command := range workspace.Commands(`mnemonic("(Offload|Cpp).*", deps(//:all))`, twoMachines...) {
		seen[command.Mnemonic]++
		platform, program := machineOf(command.Mnemonic)
		if want := "//machines:" + platform; !strings.HasSuffix(command.Platform, want) {
			t.Errorf("%s is for the platform %s, expected %s", command.Mnemonic, command.Platform, want)
		}
		if strings.HasPrefix(command.Mnemonic, "Offload") && command.Arguments[0] != program {
			t.Errorf("%s runs %s, expected %s", command.Mnemonic, command.Arguments[0], program)
		}
	}
	for mnemonic := range actions {
		if strings.HasPrefix(mnemonic, "Offload") && seen[mnemonic] == 0 {
			t.Errorf("no action %s", mnemonic)
		}
	}

	outputs := outputsOf(t, workspace, one)
	want := checksums(t, workspace, outputs, nil)
	workspace.Bazel("clean")
	result := workspace.Bazel(slices.Concat([]string{"build", "//machines:host"}, ofEachGroup, twoMachines)...)
	ran := map[string]int{}
	for _, spawn := range result.Spawns {
		platform, _ := machineOf(spawn.Mnemonic)
		ran[platform+" "+spawn.Mnemonic]++
		if got := spawn.Properties["machine"]; got != platform {
			t.Errorf("%s ran on the machine %q, expected %q", spawn.Mnemonic, got, platform)
		}
	}
	for _, action := range []string{"cc CppCompile", "cc OffloadBundle", "device OffloadHipCompile", "device OffloadHipHostCompile", "device OffloadDeviceLink"} {
		if ran[action] == 0 {
			t.Errorf("no action %s was run: %v", action, ran)
		}
	}
	if diff := cmp.Diff(want, checksums(t, workspace, outputs, nil)); diff != "" {
		t.Errorf("bytes differ from those with one platform (-one +two):\n%s", diff)
	}
}

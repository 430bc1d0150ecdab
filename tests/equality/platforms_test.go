package equality

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// machinesFile declares two execution platforms: one without a device compiler, and one with the device toolchain and a
// program of its own.
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
    constraint_values = [":is_device"],
    exec_properties = {"machine": "device"},
    parents = ["@platforms//host"],
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
		// A scheduler that compares all properties, such as Buildbarn's, has no machine for a property of an exec group that
		// is not the action's.
		for name := range spawn.Properties {
			if strings.Contains(name, ".") {
				t.Errorf("%s has the property %s of an exec group", spawn.Mnemonic, name)
			}
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

// fleetFile declares the execution platforms laptop, farm and bare. Each has a program and a C++ toolchain, farm and bare also
// a device compiler; those of bare and the compiler of laptop are registered apart. Flags and files have the name of the
// platform. Without a CPU, no C++ toolchain of the machine runs on bare. Nothing of it is run.
const fleetFile = `load("@bazel_tools//tools/cpp:unix_cc_toolchain_config.bzl", "cc_toolchain_config")
load("@rules_cc//cc:defs.bzl", "cc_toolchain")
load("@rules_offload//rules:toolchains.bzl", "offload_device_toolchain", "offload_program_toolchain")

MACHINES = ["laptop", "farm", "bare"]

constraint_setting(name = "machine")

[
    constraint_value(
        name = "is_" + machine,
        constraint_setting = ":machine",
    )
    for machine in MACHINES
]

[
    platform(
        name = machine,
        constraint_values = [":is_" + machine],
        parents = [] if machine == "bare" else ["@platforms//host"],
    )
    for machine in MACHINES
]

[
    offload_program_toolchain(
        name = machine + "_offload",
        program = "of_" + machine + "/offload",
    )
    for machine in MACHINES
]

[
    offload_device_toolchain(
        name = machine + "_clang",
        clang = "of_" + machine + "/clang",
        compile_files = ["of_" + machine + "/device.h"],
        compile_flags = ["-DDEVICE=of_" + machine],
        host_compile_flags = ["-DHOST=of_" + machine],
        link_files = ["of_" + machine + "/lld"],
        link_flags = ["-Wl,of_" + machine],
        processors = ["gfx1100", "gfx906", "gfx90a", "gfx942"],
        release = 22,
        rocm_files = ["of_" + machine + "/include/hip/hip_runtime.h"],
        rocm_version = "of_" + machine + "/share/hip/version",
    )
    for machine in MACHINES
]

[
    cc_toolchain_config(
        name = machine + "_config",
        abi_libc_version = "unknown",
        abi_version = "unknown",
        compile_flags = ["-DCC=of_" + machine],
        compiler = "gcc",
        cpu = "k8",
        cxx_builtin_include_directories = ["fleet/of_" + machine],
        cxx_flags = ["-isystem", "fleet/of_" + machine + "/cc"],
        host_system_name = "local",
        target_libc = "glibc",
        target_system_name = "x86_64-linux-gnu",
        tool_paths = {tool: "/of_" + machine + "/" + tool for tool in ["ar", "cpp", "dwp", "gcc", "gcov", "ld", "llvm-cov", "llvm-profdata", "nm", "objcopy", "objdump", "strip"]},
        toolchain_identifier = machine,
    )
    for machine in MACHINES
]

[
    filegroup(
        name = machine + "_files",
        srcs = ["of_" + machine + "/cc/stdio.h"],
    )
    for machine in MACHINES
]

[
    cc_toolchain(
        name = machine + "_cc",
        all_files = ":" + machine + "_files",
        ar_files = ":" + machine + "_files",
        compiler_files = ":" + machine + "_files",
        dwp_files = ":" + machine + "_files",
        linker_files = ":" + machine + "_files",
        objcopy_files = ":" + machine + "_files",
        strip_files = ":" + machine + "_files",
        toolchain_config = ":" + machine + "_config",
    )
    for machine in MACHINES
]

[
    toolchain(
        name = machine + "_" + kind + "_toolchain",
        exec_compatible_with = [":is_" + machine],
        toolchain = ":" + machine + "_" + kind,
        toolchain_type = type,
    )
    for machine in MACHINES
    for kind, type in {
        "cc": "@bazel_tools//tools/cpp:toolchain_type",
        "clang": "@rules_offload//rules/toolchain:device_type",
        "offload": "@rules_offload//rules/toolchain:program_type",
    }.items()
]
`

// A fleet is a list of execution platforms, and where the actions of each exec group run.
type fleet struct {
	name      string
	platforms []string // in order of preference
	compilers []string // the platforms with a device compiler
	withCc    []string // the platforms with a C++ toolchain
	want      map[string]string
}

var fleets = []fleet{
	{"only the second has a compiler", []string{"laptop", "farm"}, []string{"farm"}, []string{"laptop", "farm"}, map[string]string{"": "laptop", "bundle": "laptop", "compile": "farm", "link": "farm"}},
	{"only the first has a compiler", []string{"farm", "laptop"}, []string{"farm"}, []string{"laptop", "farm"}, map[string]string{"": "farm", "bundle": "farm", "compile": "farm", "link": "farm"}},
	{"both have a compiler, laptop first", []string{"laptop", "farm"}, []string{"laptop", "farm"}, []string{"laptop", "farm"}, map[string]string{"": "laptop", "bundle": "laptop", "compile": "laptop", "link": "laptop"}},
	{"both have a compiler, farm first", []string{"farm", "laptop"}, []string{"laptop", "farm"}, []string{"laptop", "farm"}, map[string]string{"": "farm", "bundle": "farm", "compile": "farm", "link": "farm"}},
	{"the first has no C++ toolchain", []string{"bare", "farm"}, []string{"bare", "farm"}, []string{"farm"}, map[string]string{"": "farm", "bundle": "bare", "compile": "farm", "link": "bare"}},
}

// TestFleets checks that everything in an action, of every rule, is from the execution platform that runs it: the program,
// the compilers, their flags and their files.
func TestFleets(t *testing.T) {
	files := everyRule()
	files["fleet/BUILD.bazel"] = fleetFile
	for _, machine := range []string{"laptop", "farm", "bare"} {
		for _, name := range []string{"offload", "clang", "device.h", "lld", "include/hip/hip_runtime.h", "share/hip/version", "cc/stdio.h"} {
			files["fleet/of_"+machine+"/"+name] = ""
		}
	}
	workspace := bazeltest.New(t, t.TempDir(), files)
	for _, fleet := range fleets {
		t.Run(fleet.name, func(t *testing.T) {
			flags := []string{
				"--extra_execution_platforms=//fleet:" + strings.Join(fleet.platforms, ",//fleet:"),
				"--@rules_offload//rules/settings:device_compiler=none_of_the_system",
			}
			for _, platform := range fleet.platforms {
				flags = append(flags, "--extra_toolchains=//fleet:"+platform+"_offload_toolchain")
			}
			for _, platform := range fleet.compilers {
				flags = append(flags, "--extra_toolchains=//fleet:"+platform+"_clang_toolchain")
			}
			for _, platform := range fleet.withCc {
				flags = append(flags, "--extra_toolchains=//fleet:"+platform+"_cc_toolchain")
			}
			testFleet(t, workspace.Commands(`mnemonic("(Offload|Cpp).*", deps(//:all))`, flags...), fleet)
		})
	}
}

// marker is the name of a platform in flags and paths.
var marker = regexp.MustCompile(`of_(laptop|farm|bare)`)

func testFleet(t *testing.T, commands []bazeltest.Command, fleet fleet) {
	seen := mnemonics(commands)
	for mnemonic := range actions {
		if strings.HasPrefix(mnemonic, "Offload") && seen[mnemonic] == 0 {
			t.Errorf("no action %s", mnemonic)
		}
	}
	for _, command := range commands {
		group := ""
		if strings.HasPrefix(command.Mnemonic, "Offload") {
			group = groupOf(command.Mnemonic)
		}
		want := fleet.want[group]
		if !strings.HasSuffix(command.Platform, "//fleet:"+want) {
			t.Errorf("%s is for the platform %s, expected %s", command.Mnemonic, command.Platform, want)
		}
		found := map[string]bool{}
		for _, text := range slices.Concat(command.Arguments, command.Inputs) {
			for _, match := range marker.FindAllStringSubmatch(text, -1) {
				found[match[1]] = true
				if match[1] != want {
					t.Errorf("%s runs on %s, and has %s", command.Mnemonic, want, text)
				}
			}
		}
		if !found[want] {
			t.Errorf("%s has nothing of %s: %q %q", command.Mnemonic, want, command.Arguments, command.Inputs)
		}
		for _, flag := range flagsOfMachine[command.Mnemonic] {
			if !slices.Contains(command.Arguments, flag+want) {
				t.Errorf("%s does not have %s: %q", command.Mnemonic, flag+want, command.Arguments)
			}
		}
	}
}

// flagsOfMachine are beginnings of flags that end with the name of the platform, to show that the test sees them.
var flagsOfMachine = map[string][]string{
	"OffloadCudaCompile":        {"-DDEVICE=of_"},
	"OffloadDeviceLink":         {"-Wl,of_"},
	"OffloadHipCompile":         {"-DDEVICE=of_"},
	"OffloadHipHostCompile":     {"-DCC=of_", "-DHOST=of_"},
	"OffloadOpenMpCompile":      {"-DDEVICE=of_"},
	"OffloadOpenMpHostCompile":  {"-DCC=of_", "-DHOST=of_"},
	"OffloadOpenMpHostObject":   {"-DCC=of_", "-DHOST=of_"},
	"OffloadOpenMpIncludes":     {"-DCC=of_", "-DHOST=of_"},
	"OffloadHipPortableCompile": {"-DDEVICE=of_"},
}

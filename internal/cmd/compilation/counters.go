package compilation

import (
	"fmt"
	"strings"
)

// counters are the beginnings of flags that count what a program executes, and the flags that disable them.
var counters = []struct{ beginning, off string }{
	{"--coverage", ""},
	{"-fcoverage-mapping", "-fno-coverage-mapping"},
	{"-fcs-profile-generate", ""},
	{"-fprofile-arcs", "-fno-profile-arcs"},
	{"-fprofile-generate", "-fno-profile-generate"},
	{"-fprofile-instr-generate", "-fno-profile-instr-generate"},
	{"-fprofile-instrument=", ""},
	{"-ftest-coverage", "-fno-test-coverage"},
}

// checkCounters returns an error if a command line of clang has code for GPUs count what it executes. Nothing
// writes such counters: code of LLVM 23 and newer calls a runtime for GPUs that no package has.
func checkCounters(command []string) error {
	if !compilesDevice(command) {
		return nil
	}
	for _, flag := range counters {
		enabled := ""
		for i, arg := range command[1:] {
			switch {
			case command[i] == "-Xarch_host":
			case strings.HasPrefix(arg, flag.beginning):
				enabled = arg
			case arg == flag.off:
				enabled = ""
			}
		}
		if enabled != "" {
			return fmt.Errorf("%s: device code cannot be instrumented: no device runtime writes its counters; remove the flag, or write -Xarch_host before it", enabled)
		}
	}
	return nil
}

// compilesDevice reports whether a command line of clang compiles code for AMD GPUs.
func compilesDevice(command []string) bool {
	device := false
	for _, arg := range command[1:] {
		switch triple := strings.TrimPrefix(arg, "--target="); {
		case arg == "--offload-host-only" || arg == "--cuda-host-only":
			return false
		case arg == "--offload-device-only" || arg == "--cuda-device-only" || strings.HasPrefix(arg, "--offload-arch="):
			device = true
		case (strings.HasPrefix(triple, "amdgcn") || strings.HasPrefix(triple, "amdgpu")) && strings.Contains(triple, "-amd-"):
			device = true
		}
	}
	return device
}

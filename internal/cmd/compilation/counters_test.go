package compilation

import (
	"strings"
	"testing"
)

func TestCounters(t *testing.T) {
	for command, flag := range map[string]string{
		"--offload-device-only -fprofile-instr-generate":                            "-fprofile-instr-generate",
		"--offload-device-only -Xarch_device -fprofile-generate=dir -c a.hip":       "-fprofile-generate=dir",
		"-Xclang -triple -Xclang amdgcn-amd-amdhsa -fcoverage-mapping":              "-fcoverage-mapping",
		"-Xclang -triple -Xclang amdgpu9.0a-amd-amdhsa --coverage":                  "--coverage",
		"--target=amdgcn-amd-amdhsa -Xclang -fprofile-instrument=llvm":              "-fprofile-instrument=llvm",
		"-x hip --offload-arch=gfx90a -fprofile-instr-generate=%p.profraw":          "-fprofile-instr-generate=%p.profraw",
		"-x hip --offload-arch=gfx90a -Xarch_host -fprofile-instr-generate":         "",
		"--offload-device-only -fprofile-generate -fno-profile-generate":            "",
		"--offload-device-only -fprofile-instr-use=a.profdata -fprofile-use=a":      "",
		"-x hip --offload-host-only --offload-arch=gfx90a -fprofile-instr-generate": "",
		"-c a.cc -fprofile-instr-generate -fcoverage-mapping":                       "",
	} {
		err := Run(Options{Command: strings.Fields("/does/not/exist/clang " + command)})
		if err == nil {
			t.Fatal("a compiler that does not exist runs")
		}
		got, _, found := strings.Cut(err.Error(), ": device code cannot be instrumented: ")
		if found != (flag != "") || found && got != flag {
			t.Errorf("%s: got %q, expected the flag %q", command, err, flag)
		}
	}
}

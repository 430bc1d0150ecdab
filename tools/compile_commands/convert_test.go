package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testConverter() converter {
	return converter{
		workspace:   "/ws",
		execroot:    "/base/execroot/_main",
		resourceDir: func(string) (string, error) { return "/llvm/lib/clang/22", nil },
	}
}

func TestEntry(t *testing.T) {
	for _, test := range []struct {
		name   string
		action action
		file   string
		args   []string
	}{
		{
			name: "device",
			action: action{Arguments: []string{
				"external/clang~/bin/clang", "-x", "hip", "--offload-arch=gfx90a", "-S", "-Xclang", "-emit-obj", "-iquote", ".",
				"-Ibazel-out/k8/bin", "-isystem", "external/rocm~/include", "-o", "bazel-out/k8/bin/a.o", "pkg/a.hip",
			}},
			file: "/ws/pkg/a.hip",
			args: []string{
				"/base/external/clang~/bin/clang", "-x", "hip", "--offload-arch=gfx90a", "-iquote", ".",
				"-I/base/execroot/_main/bazel-out/k8/bin", "-isystem", "/base/external/rocm~/include", "/ws/pkg/a.hip",
			},
		},
		{
			name: "param file, generated source",
			action: action{
				Arguments:  []string{"/usr/bin/gcc", "@bazel-out/a.params", "-c", "bazel-out/k8/bin/a.cc"},
				ParamFiles: []paramFile{{ExecPath: "bazel-out/a.params", Arguments: []string{"-DX=external", "-MD", "-MF", "bazel-out/a.d"}}},
			},
			file: "/base/execroot/_main/bazel-out/k8/bin/a.cc",
			args: []string{"/usr/bin/gcc", "-DX=external", "/base/execroot/_main/bazel-out/k8/bin/a.cc"},
		},
		{
			name: "OpenMP for a GPU, from standard input",
			action: action{Arguments: []string{
				"prebuilt/offload", "compile", "a.h", "--unused=bazel-out/a.unused", "--stdin=bazel-out/k8/bin/a.full.c", "--device-functions", "--", "external/clang~/bin/clang", "-x", "c", "-fopenmp",
				"-Xclang", "-main-file-name", "-Xclang", "//pkg/a.c", "-Xclang", "-target-cpu", "-Xclang", "gfx90a",
				"-Xclang", "-fopenmp-is-target-device", "-Xclang", "-fopenmp-host-ir-file-path", "-Xclang", "bazel-out/k8/bin/a.bc",
				"-emit-llvm", "-c", "-o", "bazel-out/k8/bin/a.o", "-",
			}},
			file: "/ws/pkg/a.c",
			args: []string{
				"/base/external/clang~/bin/clang", "-x", "c", "-fopenmp", "-Xclang", "-target-cpu", "-Xclang", "gfx90a",
				"-Xclang", "-fopenmp-is-target-device", "-isystem", "/llvm/lib/clang/22/include/openmp_wrappers",
				"-isystem", "/llvm/lib/clang/22/include/llvm_libc_wrappers", "/ws/pkg/a.c",
			},
		},
		{
			name: "with a list of headers",
			action: action{
				Arguments: []string{
					"bazel-out/exec/offload", "compile", "--headers=bazel-out/a.params", "--unused=bazel-out/a.unused", "--",
					"external/clang~/bin/clang", "-x", "hip", "-o", "a.o", "pkg/a.hip",
				},
				ParamFiles: []paramFile{{ExecPath: "bazel-out/a.params", Arguments: []string{"a.h", "b.cc"}}},
			},
			file: "/ws/pkg/a.hip",
			args: []string{"/base/external/clang~/bin/clang", "-x", "hip", "/ws/pkg/a.hip"},
		},
		{
			name:   "included file is no source",
			action: action{Arguments: []string{"clang", "-include", "prefix.c", "a.cc"}},
			file:   "/ws/a.cc",
			args:   []string{"clang", "-include", "prefix.c", "/ws/a.cc"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, ok := testConverter().entry(test.action)
			want := entry{Directory: "/ws", File: test.file, Arguments: test.args}
			if !ok || !cmp.Equal(e, want) {
				t.Errorf("ok is %t\n%s", ok, cmp.Diff(want, e))
			}
		})
	}
	for _, args := range [][]string{{"clang", "-x", "ir", "a.bc"}, {"offload", "compile", "--"}, nil} {
		if e, ok := testConverter().entry(action{Arguments: args}); ok {
			t.Errorf("%q: %v", args, e)
		}
	}
}

// TestOrder checks that the host's entry of a source is first, and that equal entries occur once.
func TestOrder(t *testing.T) {
	compile := func(mnemonic string, args ...string) action {
		return action{Mnemonic: mnemonic, Arguments: append([]string{"clang"}, args...)}
	}
	entries := testConverter().entries(&actionGraph{Actions: []action{
		compile("OffloadHipCompile", "--offload-arch=gfx90a", "b.hip"),
		compile("CppCompile", "-o", "a.o", "a.cc"),
		compile("OffloadHipHostCompile", "--offload-host-only", "b.hip"),
		compile("CppCompile", "-fPIC", "-o", "a.pic.o", "a.cc"),
		compile("CppCompile", "-o", "other/a.o", "a.cc"),
		compile("OffloadHipCompile", "--offload-arch=gfx1100", "b.hip"),
	}})
	var got []string
	for _, e := range entries {
		got = append(got, e.File+" "+e.Arguments[1])
	}
	want := []string{
		"/ws/a.cc /ws/a.cc", "/ws/a.cc -fPIC",
		"/ws/b.hip --offload-host-only", "/ws/b.hip --offload-arch=gfx90a", "/ws/b.hip --offload-arch=gfx1100",
	}
	if !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

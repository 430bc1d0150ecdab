package main

import "testing"

func TestDropIn(t *testing.T) {
	for name, want := range map[string]bool{
		"clang-offload-bundler": true, "bin/clang-linker-wrapper-23": true, "llvm-offload-wrapper.exe": true, "/usr/bin/clang-offload-bundler-22": true, "bin/llvm-offload-binary.exe": true,
		"clang-offload-packager-22.1": true, "roc-obj-ls": true, "/opt/rocm/bin/roc-obj-extract": true, "roc-obj": true, "roc-obj-x": false, "offload": false, "clang-offload-bundler-x": false, "clang-offload-bundlers": false, "": false,
	} {
		if got := dropIn(name) != nil; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

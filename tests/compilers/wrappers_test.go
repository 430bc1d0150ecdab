package compilers

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

// A vendor is a clang 23 that differs from LLVM's own in what it says, or in what it does.
type vendor struct {
	// version and number are its answers to --version and -dumpversion, empty for those of clang 23.
	version, number string
	// flag is one that the driver has before those of its command line.
	flag string
	// configuration is its file clang.cfg.
	configuration string
	// fact is one that the rules must know, as explain_flags prints it.
	fact string
}

var vendors = map[string]vendor{
	// ROCm 7.14: 23 months before LLVM's change to full link-time optimization.
	"amd": {
		version: "AMD clang version 23.0.0git (https://github.com/ROCm/llvm-project.git 1a2b3c roc-7.14.0 26123)", number: "23.0.0",
		flag: "-fno-offload-lto", fact: "lto_hip = none",
	},
	"configured": {configuration: "# Of this site.\n-fno-offload-lto -mcode-object-version=5\n", fact: "config = -fno-offload-lto -mcode-object-version=5"},
	"unknown":    {version: "clang version main", number: "main", fact: "lto_hip = full"},
}

// make writes the directory of an LLVM with the compiler, and returns it.
func (v vendor) make(t *testing.T, dir string) string {
	t.Helper()
	real := releases.Get(t, 23).Bin()
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o777); err != nil {
		t.Fatal(err)
	}
	link := func(from, to string) {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(filepath.Dir(real), "lib"), filepath.Join(dir, "lib"))
	// The run path of the program.
	link(filepath.Join(real, "../../x86_64-linux-gnu"), filepath.Join(filepath.Dir(dir), "x86_64-linux-gnu"))
	for _, name := range []string{"ld.lld", "lld", "clang-linker-wrapper", "clang-offload-bundler", "llvm-offload-binary", "llvm-link"} {
		link(filepath.Join(real, name), filepath.Join(bin, name))
	}
	program := filepath.Join(real, "clang")
	content := fmt.Appendf(nil, "#!/bin/sh\ncase $1 in\n--version) echo '%s'; exit ;;\n-dumpversion) echo '%s'; exit ;;\nesac\nexec '%s' %s \"$@\"\n", v.version, v.number, program, v.flag)
	if v.configuration != "" {
		// Clang reads the file from the directory of the program.
		var err error
		if content, err = os.ReadFile(program); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, "clang.cfg"), []byte(v.configuration), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "clang"), content, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// testVendor compares the kernels of libraries with those of the driver.
func testVendor(t *testing.T, c *clang, w *bazeltest.Workspace, name string, v vendor, build func(...string) *bazeltest.Result) {
	programs := []string{"program_alone", "program_rdc"}
	result := build(append(prefixed("//:", programs), "//:regions", "--@rules_offload//rules/settings:explain_flags")...)
	if !strings.Contains(result.Output, v.fact) {
		t.Errorf("explain_flags does not print %q:\n%s", v.fact, result.Output)
	}
	for _, program := range programs {
		c.checkDriver(program, "fastbuild")
	}
	if v.configuration == "" {
		return
	}
	actions := 0
	for _, spawn := range result.Spawns {
		if spawn.Mnemonic != "OffloadHipCompile" && spawn.Mnemonic != "OffloadDeviceLink" {
			continue
		}
		actions++
		found := false
		for _, input := range spawn.Inputs {
			found = found || strings.HasSuffix(input.Path, name+"/bin/clang.cfg")
		}
		if !found {
			t.Errorf("%s of %q does not have clang.cfg as an input", spawn.Mnemonic, spawn.Outputs)
		}
	}
	if actions == 0 {
		t.Error("nothing was compiled")
	}
	for _, image := range []string{"program_rdc/gfx90a_xnack+.co", "regions/gfx90a_xnack+.img"} {
		file, err := elf.Open(c.bin(image))
		if err != nil {
			t.Fatal(err)
		}
		// ELFABIVERSION_AMDGPU_HSA_V5.
		if file.ABIVersion != 3 {
			t.Errorf("%s has the ABI version %d, expected 3, of code object version 5", image, file.ABIVersion)
		}
		file.Close()
	}
}

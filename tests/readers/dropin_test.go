package readers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

// TestFollows runs command lines whose results differ between releases of LLVM with each release,
// and with the drop-in that follows it.
func TestFollows(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("in", "code")
	write("method", "CCOB\x03\x00\x07\x00"+strings.Repeat("a", 60))
	write("short", "CCOB\x03\x00\x01\x00aa")
	write("frame", "CCOB\x03\x00\x01\x00\x50\x00\x00\x00\x00\x00\x00\x00\x50\x00\x00\x00\x00\x00\x00\x00aaaaaaaa"+strings.Repeat("b", 48))
	random := rand.New(rand.NewPCG(1, 2))
	calls := map[string][][]string{"clang-offload-bundler": {
		{"-h"}, {}, {"-h", "-type=bc"}, {"--version"},
		{"-type=bc", "-list", "-input=method"}, {"-type=bc", "-list", "-input=short"}, {"-type=bc", "-list", "-input=frame"},
		{"-type=bc", "-unbundle", "-verbose", "-input=in", "-targets=hip-amdgcn-amd-amdhsa--gfx906", "-output=out"},
	}, "llvm-offload-binary": {
		{"--image=file=in,triple=x-y-z,arch=a,arch=b", "-o", "packed"}, {"packed"}, {"-o", "packed"}, {"--help"},
		{"--image=file=in,triple=x-y-z", "--image=file=in,triple=a,kind=hip,b=c,d=e,feature=f,g=h,i=j,k=l", "-o", "packed"},
	}}
	// Many entries, so that hashes collide.
	for range 12 {
		targets := "-targets=host-x86_64-unknown-linux-gnu"
		args := []string{"-type=bc", "-output=bundle", "-input=in"}
		for _, i := range random.Perm(len(many))[:9+random.IntN(16)] {
			targets += ",hip-amdgcn-amd-amdhsa--" + many[i]
			args = append(args, "-input=in")
		}
		calls["clang-offload-bundler"] = append(calls["clang-offload-bundler"], append(args, targets), []string{"-type=bc", "-list", "-input=bundle"})
	}
	calls24 := [][]string{
		{"--compress", "--image=file=in,triple=x-y-z", "-o", "packed"}, {"packed"}, {"--compress", "--compression-format=zlib", "--compression-level=9", "--image=file=in,triple=x-y-z", "-o", "packed"}, {"packed"},
		{"--compression-format=lz4"}, {"--compression-level=x"}, {"--compression-format="}, {"-compresss"}, {"--compress-format=zstd"}, {"--compress=false", "-o", "packed", "--image=file=in,triple=x-y-z"},
	}
	for _, number := range releases.Followed {
		r := releases.Get(t, number)
		for tool, list := range calls {
			if tool == "llvm-offload-binary" && number == 22 {
				continue // extracts as LLVM 23 does, whichever release it follows
			}
			if number == 24 && tool == "llvm-offload-binary" {
				list = append(list, calls24...)
			}
			ours := llvm.DropIn(t, tool)
			for _, args := range list {
				run := func(cmd *exec.Cmd, program string) string {
					os.Remove(filepath.Join(dir, "out"))
					cmd.Dir = dir
					out, err := cmd.CombinedOutput()
					text := strings.ReplaceAll(string(out), program, tool)
					// The text that our messages append to LLVM's.
					text = regexp.MustCompile(`(?m)(while parsing the file|unexpectedly encountered).*$`).ReplaceAllString(text, "$1")
					if err != nil {
						text += fmt.Sprintln(cmd.ProcessState.ExitCode())
					}
					for _, name := range []string{"packed", "bundle"} {
						if len(args) > 0 && strings.Contains(strings.Join(args, " "), "put="+name) || strings.HasSuffix(strings.Join(args, " "), "-o "+name) {
							data, _ := os.ReadFile(filepath.Join(dir, name))
							if args[0] != "--compress" {
								text += fmt.Sprintf("%q", data)
							}
						}
					}
					return text
				}
				theirs := r.Command(t, tool, args...)
				want := run(theirs, theirs.Path)
				own := exec.Command(ours, args...)
				own.Env = append(os.Environ(), fmt.Sprintf("OFFLOAD_LLVM_VERSION=%d", number))
				got := run(own, ours)
				if args := strings.Join(args, " "); number == 22 && args == "--version" {
					continue // the machine has another version of the package than the root
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("LLVM %d: %s %q (-LLVM +ours):\n%s", number, tool, args, diff)
				}
			}
		}
	}
	own := exec.Command(llvm.DropIn(t, "clang-offload-bundler"), "-h")
	own.Env = append(os.Environ(), "OFFLOAD_LLVM_VERSION=21")
	followed := strings.ReplaceAll(strings.Trim(fmt.Sprint(releases.Followed), "[]"), " ", ", ")
	if out, err := own.CombinedOutput(); err == nil || !strings.Contains(string(out), `OFFLOAD_LLVM_VERSION: found "21", expected `+followed+";") {
		t.Errorf("21: %v\n%s", err, out)
	}
}

var many = []string{"gfx600", "gfx601", "gfx700", "gfx701", "gfx801", "gfx803", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx942", "gfx950",
	"gfx1010", "gfx1011", "gfx1012", "gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1200", "gfx1201", "gfx9-generic", "gfx11-generic"}

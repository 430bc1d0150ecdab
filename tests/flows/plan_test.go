package flows

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plan is the part of the output of offload link --json that is compared.
type plan struct {
	Links []struct {
		Triple, Arch string
		Command      []string
	}
}

// staged removes the part of an image's file name that is unique to a run.
var staged = regexp.MustCompile(`^image\d+-|-[0-9a-f]{6}\.o$|\.o$`)

// summary describes a device link: the target, and its images in order.
func summary(command []string) string {
	target, images := "", []string(nil)
	for i, arg := range command {
		name := filepath.Base(arg)
		switch {
		case strings.HasPrefix(arg, "--target="), strings.HasPrefix(arg, "-mcpu="), strings.HasPrefix(arg, "-march="), arg == "-shared", arg == "-flto":
			target += arg + " "
		case strings.HasSuffix(name, ".o") && command[i-1] != "-o":
			name = staged.ReplaceAllString(name, "")
			images = append(images, staged.ReplaceAllString(name, ""))
		}
	}
	return target + strings.Join(images, " ")
}

// TestPlans compares device links with those of clang-linker-wrapper, for inputs in an order in
// which it loses no images.
func TestPlans(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.write("device.o", []byte("device code"))
	f.gcc("-c", "plain.c", "-o", "plain.o")
	images := map[string][2]string{
		"cpu": {host, "generic"}, "any": {amd, "generic"}, "gfx90a": {amd, "gfx90a"}, "gfx942": {amd, "gfx942"},
		"xnack": {amd, "gfx90a:xnack+"}, "noxnack": {amd, "gfx90a:xnack-"},
		"sm_70": {"nvptx64-nvidia-cuda", "sm_70"}, "sm_80": {"nvptx64-nvidia-cuda", "sm_80"},
	}
	for name, target := range images {
		f.offload("pack", "--output=package", fmt.Sprintf("--image=file=device.o,triple=%s,arch=%s,kind=openmp", target[0], target[1]))
		f.offload("embed", "--input=plain.o", "--output="+name+".o", "package")
	}
	for _, library := range []string{"cpu", "gfx90a", "gfx942", "any", "sm_70"} {
		f.tool("llvm-ar", "rcs", "lib"+library+".a", library+".o")
	}
	f.tool("llvm-ar", "rcs", "liball.a", "cpu.o", "gfx90a.o", "gfx942.o", "xnack.o", "sm_80.o", "plain.o")
	for _, inputs := range []string{
		"plain.o cpu.o",
		"cpu.o gfx90a.o",
		"gfx90a.o cpu.o gfx942.o",
		"cpu.o cpu.o libcpu.a",
		"gfx90a.o any.o",
		"xnack.o noxnack.o gfx90a.o",
		"xnack.o libgfx90a.a",
		"gfx90a.o libgfx942.a liball.a",
		"liball.a cpu.o",
		"libcpu.a libgfx90a.a cpu.o",
		"sm_70.o libsm_70.a liball.a sm_80.o",
		"gfx90a.o gfx942.o libany.a",
		"liball.a",
	} {
		names := strings.Fields(inputs)
		printed := f.tool("clang-linker-wrapper", append([]string{"--dry-run", "--host-triple=" + host, "--linker-path=/usr/bin/ld", "-o", "out"}, names...)...)
		var want, got []string
		for line := range strings.Lines(printed) {
			if strings.Contains(line, "--target=") {
				want = append(want, summary(strings.Fields(strings.ReplaceAll(line, `"`, ""))))
			}
		}
		var p plan
		if err := json.Unmarshal([]byte(f.link(append([]string{"--json"}, names...)...)), &p); err != nil {
			t.Fatal(err)
		}
		for _, link := range p.Links {
			got = append(got, summary(link.Command))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-LLVM +this):\n%s", inputs, diff)
		}
	}
}

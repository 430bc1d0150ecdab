package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// fakeClang makes the test program link as Clang does for Link: the output is
// the content of all inputs.
const fakeClang = "OFFLOAD_TEST_CLANG"

func init() {
	mode := os.Getenv(fakeClang)
	if mode == "" {
		return
	}
	var output string
	var linked []byte
	for i, arg := range os.Args {
		if arg == "-o" {
			output = os.Args[i+1]
		}
		named := strings.HasPrefix(arg, "image")
		if mode == "files" { // of the working directory, or with an absolute path
			info, err := os.Stat(arg)
			named = err == nil && info.Mode().IsRegular() && i > 0 && os.Args[i-1] != "-o"
		}
		if named {
			data, err := os.ReadFile(arg)
			if err != nil {
				panic(err)
			}
			linked = append(linked, data...)
		}
	}
	switch {
	case mode == "hang":
		time.Sleep(time.Minute)
	case mode == "fail" || os.Getenv("PATH") != "":
		fmt.Fprintln(os.Stderr, "ld.lld: error: undefined symbol: f")
		os.Exit(1)
	case mode == "idle":
		os.Exit(0)
	}
	fmt.Println("linked", output)
	if err := os.WriteFile(output, linked, 0o666); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// fatObject is a host object with images: TRIPLE ARCH KIND CONTENT each.
func fatObject(t testing.TB, images ...string) []byte {
	var section []byte
	for _, image := range images {
		fields := strings.Fields(image)
		kind, _ := offloadbinary.ParseOffloadKind(fields[2])
		section = append(section, fixture.Bytes(t, func(out content.Sink) error {
			return offloadbinary.Write(out, 1, []offloadbinary.Image{{
				Kind: offloadbinary.Object, Offload: kind, Content: content.Memory([]byte(fields[3])),
				Properties: offloadbinary.Properties{{Key: "triple", Value: fields[0]}, {Key: "arch", Value: fields[1]}},
			}})
		})...)
	}
	return fixture.ELF(t, ".llvm.offloading:offloading", string(section))
}

// planned returns a line for each link: the target, the offload kinds, and the
// inputs and members of its images.
func planned(t testing.TB, s *engine.Session, opt EveryTargetOptions) []string {
	t.Helper()
	plan, err := PlanEveryTarget(context.Background(), s, opt)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, link := range plan.Links {
		line := fmt.Sprintf("%s %s %s:", link.Triple, link.Arch, strings.Join(link.Kinds, "+"))
		for _, image := range link.Images {
			line += " " + image.Input
			if image.Member != "" {
				line += "(" + image.Member + ")"
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func linkInputs(t testing.TB) map[string][]byte {
	const amd, cpu = "amdgcn-amd-amdhsa", "x86_64-pc-linux-gnu"
	shared := bytes.Clone(fatObject(t, cpu+" generic openmp z"))
	shared[16] = 3 // ET_DYN
	return map[string][]byte{
		"cpu.o":     fatObject(t, cpu+" generic openmp a"),
		"both.o":    fatObject(t, cpu+" generic openmp b", amd+" gfx90a openmp c"),
		"hip.o":     fatObject(t, amd+" gfx90a hip d", amd+" gfx1030 hip e"),
		"xnack.o":   fatObject(t, amd+" gfx90a:xnack+ hip f"),
		"noxnack.o": fatObject(t, amd+" gfx90a:xnack- hip g"),
		"any.o":     fatObject(t, amd+" generic openmp h"),
		"plain.o":   fixture.ELF(t, ".text", "code"),
		"lib.a": fixture.Archive(t, "one.o", string(fatObject(t, amd+" gfx90a hip i", amd+" gfx942 hip j")), "two.o", string(fatObject(t, amd+" generic hip k")),
			"text", "text"),
		"xnack.a": fixture.Archive(t, "x.o", string(fatObject(t, amd+" gfx90a:xnack+ hip o"))),
		"lib.so":  shared,
		"cuda.o":  fatObject(t, "nvptx64-nvidia-cuda sm_70 cuda l"),
		"sycl.o":  fatObject(t, "spirv64-unknown-unknown generic sycl m"),
		"none.o":  fatObject(t, cpu+" generic none n"),
		"new.o":   fatObject(t, "amdgpu9.0a-amd-amdhsa gfx90a hip p", "amdgpu10.30-amd-amdhsa gfx1030 openmp q"),
		"newx.o":  fatObject(t, "amdgpu9.0a-amd-amdhsa gfx90a:xnack+ hip r"),
		"isa.o":   fatObject(t, "amdgpu9.0a-amd-amdhsa generic hip s"),
	}
}

func TestPlanLink(t *testing.T) {
	s, _ := newSession(t, linkInputs(t))
	for _, test := range []struct {
		inputs string
		whole  bool
		want   []string
	}{
		{"plain.o lib.a lib.so", false, nil},
		{"cpu.o plain.o both.o lib.so", false, []string{
			"x86_64-pc-linux-gnu generic openmp: cpu.o both.o",
			"amdgcn-amd-amdhsa gfx90a openmp: both.o",
		}},
		{"both.o new.o hip.o", false, []string{
			"x86_64-pc-linux-gnu generic openmp: both.o",
			"amdgpu10.30-amd-amdhsa gfx1030 openmp+hip: new.o hip.o",
			"amdgcn-amd-amdhsa gfx90a openmp+hip: both.o new.o hip.o",
		}},
		{"new.o newx.o isa.o", false, []string{
			"amdgpu9.0a-amd-amdhsa gfx90a:xnack+ hip: new.o newx.o isa.o",
			"amdgpu9.0a-amd-amdhsa gfx90a hip: new.o isa.o",
			"amdgpu9.0a-amd-amdhsa generic hip: isa.o",
			"amdgpu10.30-amd-amdhsa gfx1030 openmp: new.o",
		}},
		{"both.o hip.o", false, []string{
			"x86_64-pc-linux-gnu generic openmp: both.o",
			"amdgcn-amd-amdhsa gfx90a openmp+hip: both.o hip.o",
			"amdgcn-amd-amdhsa gfx1030 hip: hip.o",
		}},
		{"lib.a xnack.o noxnack.o", false, []string{
			"amdgcn-amd-amdhsa gfx90a:xnack- hip: lib.a(one.o) lib.a(two.o) noxnack.o",
			"amdgcn-amd-amdhsa gfx90a:xnack+ hip: lib.a(one.o) lib.a(two.o) xnack.o",
		}},
		{"xnack.o hip.o noxnack.o", false, []string{
			"amdgcn-amd-amdhsa gfx90a:xnack- hip: hip.o noxnack.o",
			"amdgcn-amd-amdhsa gfx90a:xnack+ hip: xnack.o hip.o",
			"amdgcn-amd-amdhsa gfx90a hip: hip.o",
			"amdgcn-amd-amdhsa gfx1030 hip: hip.o",
		}},
		{"hip.o xnack.a", false, []string{
			"amdgcn-amd-amdhsa gfx90a hip: hip.o xnack.a(x.o)",
			"amdgcn-amd-amdhsa gfx1030 hip: hip.o",
		}},
		{"lib.a", true, []string{
			"amdgcn-amd-amdhsa gfx942 hip: lib.a(one.o) lib.a(two.o)",
			"amdgcn-amd-amdhsa gfx90a hip: lib.a(one.o) lib.a(two.o)",
			"amdgcn-amd-amdhsa generic hip: lib.a(two.o)",
		}},
		{"any.o hip.o", false, []string{
			"amdgcn-amd-amdhsa gfx90a openmp+hip: any.o hip.o",
			"amdgcn-amd-amdhsa gfx1030 openmp+hip: any.o hip.o",
			"amdgcn-amd-amdhsa generic openmp: any.o",
		}},
	} {
		got := planned(t, s, EveryTargetOptions{Inputs: strings.Fields(test.inputs), Clang: "clang", WholeArchive: test.whole})
		slices.SortFunc(got, func(a, b string) int { return strings.Compare(b, a) })
		slices.SortFunc(test.want, func(a, b string) int { return strings.Compare(b, a) })
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.inputs, diff)
		}
	}
}

// TestPlanLinkOrder checks that the order of inputs decides nothing but the
// order of images.
func TestPlanLinkOrder(t *testing.T) {
	s, _ := newSession(t, linkInputs(t))
	inputs := []string{"any.o", "hip.o", "xnack.o", "lib.a"}
	sorted := func(order []string) []string {
		lines := planned(t, s, EveryTargetOptions{Inputs: order, Clang: "clang"})
		for i, line := range lines {
			target, images, _ := strings.Cut(line, ": ")
			fields := strings.Fields(images)
			slices.Sort(fields)
			lines[i] = target + ": " + strings.Join(fields, " ")
		}
		return lines
	}
	want := sorted(inputs)
	var permute func(done, left []string)
	permute = func(done, left []string) {
		if len(left) == 0 {
			if diff := cmp.Diff(want, sorted(done)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", done, diff)
			}
			return
		}
		for i := range left {
			rest := slices.Delete(slices.Clone(left), i, i+1)
			permute(append(done[:len(done):len(done)], left[i]), rest)
		}
	}
	permute(nil, inputs)
}

func TestLinkCommand(t *testing.T) {
	s, dir := newSession(t, linkInputs(t))
	opt := EveryTargetOptions{Inputs: []string{"both.o", "cuda.o", filepath.Join(dir, "lib.a")}, Clang: "/llvm/clang"}
	opt.DeviceArgs = []devicelink.Arg{{Arg: "-O2"}, {Triple: "x86_64-pc-linux-gnu", Arg: "-lomp"}}
	plan, err := PlanEveryTarget(context.Background(), s, opt)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, link := range plan.Links {
		got = append(got, strings.ReplaceAll(strings.Join(link.Command, " "), dir, "DIR"))
	}
	want := []string{
		"/llvm/clang --no-default-config -o linked0.img --target=x86_64-pc-linux-gnu -Wl,--no-undefined image0-both-x86_64-pc-linux-gnu-generic.o -Wl,-Bsymbolic -shared DIR/lib.a -O2 -lomp",
		"/llvm/clang --no-default-config -o linked2.img --target=nvptx64-nvidia-cuda -march=sm_70 image2-cuda-nvptx64-nvidia-cuda-sm_70.o -O2",
		"/llvm/clang --no-default-config -o linked1.img --target=amdgcn-amd-amdhsa -mcpu=gfx90a -flto -Wl,--no-undefined image1-both-amdgcn-amd-amdhsa-gfx90a.o image3-one-amdgcn-amd-amdhsa-gfx90a.o image5-two-amdgcn-amd-amdhsa-generic.o -O2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// link runs Link with the test program as Clang.
func link(t testing.TB, mode string, inputs ...string) (messages string, object []byte, err error) {
	t.Helper()
	s, dir := newSession(t, linkInputs(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	if mode == "hang" {
		ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	}
	defer cancel()
	messages, err = EveryTarget(ctx, s, EveryTargetOptions{
		Inputs: inputs, Clang: self, Triple: linux, Output: "out.o", Scratch: t.TempDir(), Env: []string{fakeClang + "=" + mode},
	})
	if err != nil {
		if _, statErr := os.Stat(filepath.Join(dir, "out.o")); statErr == nil {
			t.Error("a failure left an output")
		}
		return messages, nil, err
	}
	object, err = os.ReadFile(filepath.Join(dir, "out.o"))
	return messages, object, err
}

func TestLink(t *testing.T) {
	t.Setenv("PATH", "/must/not/be/seen")
	messages, object, err := link(t, "link", "both.o", "hip.o", "cpu.o")
	if err != nil {
		t.Fatal(err)
	}
	if messages != "linked linked0.img\nlinked linked1.img\nlinked linked2.img\n" {
		t.Errorf("printed %q", messages)
	}
	found := inspected(t, object)
	want := []string{
		"openmp x86_64-pc-linux-gnu  elf 2: offload binary 0x0 in  .llvm.offloading",
		"openmp amdgcn-amd-amdhsa gfx90a elf 2: offload binary 0x98 in  .llvm.offloading",
		"host x86_64-unknown-linux-gnu  none 0: bundle 0x0 in  .hip_fatbin",
		"hip amdgcn-amd-amdhsa gfx90a none 2: bundle 0x0 in  .hip_fatbin",
		"hip amdgcn-amd-amdhsa gfx1030 none 1: bundle 0x0 in  .hip_fatbin",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("the registration object holds (-want +got):\n%s", diff)
	}
}

func TestLinkErrors(t *testing.T) {
	for _, test := range []struct {
		mode, inputs, want string
	}{
		{"link", "plain.o lib.a", "no device image in the inputs: nothing to link"},
		{"link", "cuda.o", "the images for nvptx64-nvidia-cuda sm_70 are for CUDA: make a fat binary with NVIDIA's fatbinary, and register it with offload register"},
		{"link", "sycl.o", "the images for spirv64-unknown-unknown are of kind sycl; OpenMP and HIP can be linked"},
		{"link", "none.o", "the images for x86_64-pc-linux-gnu, such as that of none.o, have no offload kind"},
		{"link", "hip.o xnack.o", "hip-amdgcn-amd-amdhsa--gfx90a and hip-amdgcn-amd-amdhsa--gfx90a:xnack+ cannot be in one bundle: either all entries for gfx90a set xnack, or none"},
		{"fail", "cpu.o", "device link for x86_64-pc-linux-gnu: " + filepath.Base(os.Args[0]) + ": exit status 1\nundefined device symbol \"f\": referenced by the libraries of the link"},
		{"idle", "cpu.o", "device link for x86_64-pc-linux-gnu: /"},
		{"hang", "cpu.o", "device link for x86_64-pc-linux-gnu: context deadline exceeded"},
	} {
		start := time.Now()
		messages, _, err := link(t, test.mode, strings.Fields(test.inputs)...)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s %s: got error %v, want %s", test.mode, test.inputs, err, test.want)
		}
		if want := map[string]string{"fail": "ld.lld: error: undefined symbol: f\n"}[test.mode]; messages != want {
			t.Errorf("%s %s: got messages %q, want %q", test.mode, test.inputs, messages, want)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s %s: took %v", test.mode, test.inputs, took)
		}
	}
}

// TestLinksInRoot links with names that are relative to the directory of the request.
func TestLinksInRoot(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const amd = "amdgcn-amd-amdhsa"
	inputs := map[string][]byte{
		"host.o": fatObject(t, amd+" gfx90a hip HOST"), "lib.a": fixture.Archive(t, "one.o", string(fatObject(t, amd+" gfx90a hip MEMBER"))),
		"cpu.o": fatObject(t, "x86_64-pc-linux-gnu generic openmp CPU"),
	}
	t.Run("Link", func(t *testing.T) {
		s, dir := newSession(t, inputs)
		for i := range inputs {
			if _, err := os.Stat(i); err == nil {
				t.Fatalf("%s is in the working directory", i)
			}
		}
		opt := EveryTargetOptions{Inputs: []string{"host.o", "lib.a"}, Clang: self, Triple: linux, Output: "out.o", Scratch: t.TempDir(), Env: []string{fakeClang + "=files"}}
		if _, err := EveryTarget(t.Context(), s, opt); err != nil {
			t.Fatal(err)
		}
		if out, err := os.ReadFile(filepath.Join(dir, "out.o")); err != nil || !bytes.Contains(out, []byte("HOSTMEMBER")) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		// The library of a device link for the host is named with its path.
		plan, err := PlanEveryTarget(t.Context(), s, EveryTargetOptions{Inputs: []string{"cpu.o", "lib.a"}, Clang: self})
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "lib.a"); !slices.Contains(plan.Links[0].Command, want) {
			t.Errorf("got %q, expected %s", plan.Links[0].Command, want)
		}
	})
	t.Run("Run", func(t *testing.T) {
		s, dir := newSession(t, inputs)
		if err := Run(t.Context(), s, wrapOptions(self, t.TempDir())); err != nil {
			t.Fatal(err)
		}
		if out, err := os.ReadFile(filepath.Join(dir, "out.o")); err != nil || !bytes.Contains(out, []byte("HOSTMEMBER")) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}

// wrapOptions returns options of Run for host.o and lib.a, with the test program as compiler
// and linker.
func wrapOptions(self, temp string) Options {
	return Options{
		Inputs: []Input{{Name: "host.o"}, {Name: "lib.a"}}, HostTriple: linux, Output: "out.o",
		Linker: self, LinkerArgs: []string{"-o", "out.o"}, ObjectsAt: 2,
		Names: Names{Files: devicelink.Names{Dir: temp}, Images: devicelink.Names{Dir: temp}},
		Temp:  temp, Env: []string{fakeClang + "=files"}, Find: func(string) (string, error) { return self, nil },
		Slots: process.Limit(1), Stdout: io.Discard, Stderr: io.Discard,
	}
}

// TestRelocatableKeepsFiles isolates the result of a host link: a file of the user with a similar
// name stays, and the object keeps its mode.
func TestRelocatableKeepsFiles(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, dir := newSession(t, map[string][]byte{"host.o": fatObject(t, "amdgcn-amd-amdhsa gfx90a hip HOST"), "lib.a": fixture.Archive(t), "out.o.isolated": []byte("mine")})
	out := filepath.Join(dir, "out.o")
	if err := os.WriteFile(out, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	opt := wrapOptions(self, t.TempDir())
	opt.Relocatable = true
	if err := Run(t.Context(), s, opt); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out + ".isolated"); err != nil || string(got) != "mine" {
		t.Errorf("the user's file: %q, %v", got, err)
	}
	if got, err := os.ReadFile(out); err != nil || len(got) < 4 || string(got[:4]) != "\x7fELF" {
		t.Errorf("the output has %d bytes, %v: expected an ELF file", len(got), err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v: expected 4 files", entries, err)
	}
}

// TestWrapCancelled cancels a link while it packs the images.
func TestWrapCancelled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, dir := newSession(t, map[string][]byte{"host.o": fatObject(t, "amdgcn-amd-amdhsa gfx90a hip HOST"), "lib.a": fixture.Archive(t)})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	opt := wrapOptions(self, t.TempDir())
	opt.Result = Fatbin
	opt.Observer = phases{end: func(name string) {
		if name == "Bundle linked output" {
			cancel(cause)
		}
	}}
	if err := Run(ctx, s, opt); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.o")); err == nil {
		t.Error("the output exists")
	}
}

// phases is an Observer that is called with the name of each phase that ends.
type phases struct {
	unobserved
	end func(name string)
}

func (p phases) Phase(name, _ string) func() { return func() { p.end(name) } }

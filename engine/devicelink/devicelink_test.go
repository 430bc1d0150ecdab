package devicelink

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

const (
	amd     = "amdgcn-amd-amdhsa"
	subarch = "amdgpu9.0a-amd-amdhsa"
	nvidia  = "nvptx64-nvidia-cuda"
	cpu     = "x86_64-pc-linux-gnu"
)

// image reads "arch", "triple/arch" and, with a * at the end, a member.
func image(s string) Image {
	i := Image{Triple: amd, Kind: offloadbinary.HIP}
	s, i.Member = strings.CutSuffix(s, "*")
	if triple, arch, ok := strings.Cut(s, "/"); ok {
		i.Triple, s, i.Kind = triple, arch, offloadbinary.OpenMP
	}
	i.Arch = s
	return i
}

func TestGroups(t *testing.T) {
	tests := []struct {
		name    string
		images  []string
		extract []string
		want    []string // arch: image numbers
		release int      // 0 for 22
	}{
		{"none", nil, nil, nil, 0},
		{"one target", []string{"gfx90a", "gfx90a"}, nil, []string{"gfx90a: 0 1"}, 0},
		{"two targets", []string{"gfx90a", "gfx942", "gfx90a"}, nil, []string{"gfx90a: 0 2", "gfx942: 1"}, 0},
		{"plain code goes into the image for a setting, whatever comes first", []string{"gfx90a", "gfx90a:xnack+"}, nil, []string{"gfx90a:xnack+: 0 1"}, 0},
		{"the other order", []string{"gfx90a:xnack+", "gfx90a"}, nil, []string{"gfx90a:xnack+: 0 1"}, 0},
		{"plain code goes into both", []string{"gfx90a:xnack+", "gfx90a", "gfx90a:xnack-"}, nil, []string{"gfx90a:xnack+: 0 1", "gfx90a:xnack-: 1 2"}, 0},
		{"partial settings", []string{"gfx90a:xnack+", "gfx90a:sramecc+:xnack+", "gfx90a:sramecc-"}, nil,
			[]string{"gfx90a:sramecc+:xnack+: 0 1", "gfx90a:sramecc-: 2"}, 0},
		{"generic objects are their own", []string{cpu + "/generic", cpu + "/native"}, nil, []string{"generic: 0", "native: 1"}, 0},
		{"families are their own", []string{"gfx9-generic", "gfx900"}, nil, []string{"gfx9-generic: 0", "gfx900: 1"}, 0},
		{"triples", []string{"gfx90a", nvidia + "/gfx90a"}, nil, []string{"gfx90a: 0", "gfx90a: 1"}, 0},
		{"members alone", []string{"gfx90a*"}, nil, nil, 0},
		{"members join", []string{"gfx90a*", "gfx942*", "gfx90a"}, nil, []string{"gfx90a: 2 0"}, 0},
		{"members share", []string{"gfx90a:xnack+", "gfx90a*", "gfx90a:xnack-*", "generic*"}, nil, []string{"gfx90a:xnack+: 0 1 3"}, 0},
		{"extraction", []string{"gfx90a*", "gfx942*"}, []string{"gfx942"}, []string{"gfx942: 1"}, 0},
		{"members join what was extracted", []string{"gfx942*", "gfx90a*", "gfx942*"}, []string{"gfx942"}, []string{"gfx942: 0 2"}, 0},
		{"a later member of another setting", []string{"gfx90a", "gfx90a:xnack+*"}, []string{"gfx90a:xnack+"}, []string{"gfx90a: 0 1", "gfx90a:xnack+: 1"}, 0},
		{"24: a setting is a target of its own", []string{"gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a"}, nil, []string{"gfx90a:xnack+: 1", "gfx90a:xnack-: 2", "gfx90a: 0 3"}, 24},
		{"24: names of a target", []string{subarch + "/gfx90a", "gfx90a", subarch + "/", "amdgpu-amd-amdhsa/gfx90a"}, nil, []string{"gfx90a: 0 1 2 3"}, 24},
		{"24: without a processor", []string{amd + "/", amd + "/generic", "gfx90a"}, nil, []string{": 0 1", "gfx90a: 2"}, 24},
		{"24: families are their own", []string{"amdgpu9-amd-amdhsa/", "amdgpu9.00-amd-amdhsa/", "gfx900"}, nil, []string{": 0", ": 1 2"}, 24},
		{"24: members leave settings open", []string{"gfx90a:xnack+", "gfx90a*", "gfx90a:xnack+*", "gfx90a:xnack-*"}, nil, []string{"gfx90a:xnack+: 0 1 2"}, 24},
		{"24: members for certain settings", []string{"gfx90a", "gfx90a:xnack+*"}, nil, []string{"gfx90a: 0"}, 24},
		{"24: members of a family", []string{"gfx900", "amdgpu9-amd-amdhsa/*", "generic*"}, nil, []string{"gfx900: 0 1 2"}, 24},
		{"24: members for a processor", []string{amd + "/generic", "gfx900*"}, nil, []string{"generic: 0"}, 24},
		{"24: other devices", []string{nvidia + "/sm_70", nvidia + "/generic", nvidia + "/generic*"}, nil, []string{"sm_70: 0 2", "generic: 1 2"}, 24},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var images []Image
			for _, s := range test.images {
				images = append(images, image(s))
			}
			groups, err := Groups(images, test.extract, max(22, test.release))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range groups {
				s := g.Arch + ":"
				for _, i := range g.Images {
					s += " " + string(rune('0'+i))
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
	many := make([]Image, MaxGroups+1)
	for i := range many {
		many[i] = Image{Triple: amd, Arch: strings.Repeat("x", i)}
	}
	if _, err := Groups(many, nil, 22); err == nil {
		t.Errorf("%d targets are taken", len(many))
	}
}

func TestCommand(t *testing.T) {
	full := Options{
		Clang: "clang", Output: "dir/out", Release: 22, SaveTemps: true, EmbedBitcode: true,
		LLVM:      []LLVMArg{{"-a", true}, {"-b", false}},
		Linker:    []string{"foo=bar", amd + "=x=y", cpu + "=c", "amdgcn=no"},
		Compiler:  []string{"-O2", nvidia + "=-n", nvidia},
		Libraries: []string{"-L", "dir", "lib.a"},
	}
	plain := Options{Clang: "clang", Output: "a.out", Release: 23}
	lld := Options{Clang: "clang", Output: "a.out", SaveTemps: true, HostLLD: true}
	tests := []struct {
		name  string
		group Group
		opt   *Options
		want  string
	}{
		{"AMD", Group{Triple: amd, Arch: "gfx90a:xnack+", Kinds: offloadbinary.HIP}, &full,
			"clang --no-default-config -o x.img -dumpdir dir/out.amdgcn.gfx90a:xnack+.img. --target=amdgcn-amd-amdhsa -mcpu=gfx90a:xnack+ -flto " +
				"-Xlinker --plugin-opt=-a -Xlinker --plugin-opt=-b -Wl,--no-undefined 1.o 2.o -Xlinker -mllvm=-a -Wl,--save-temps -Wl,--lto-emit-llvm " +
				"-Xlinker foo=bar -Xlinker x=y -O2 " + nvidia},
		{"AMD, release 23", Group{Triple: amd, Arch: "gfx90a", Kinds: offloadbinary.HIP}, &plain,
			"clang --no-default-config -o x.img -dumpdir a.out.amdgcn.gfx90a.img. --target=amdgcn-amd-amdhsa -mcpu=gfx90a -Wl,--no-undefined 1.o 2.o"},
		{"NVIDIA", Group{Triple: nvidia, Arch: "sm_70", Kinds: offloadbinary.CUDA}, &full,
			"clang --no-default-config -o x.img -dumpdir dir/out.nvptx64.sm_70.img. --target=nvptx64-nvidia-cuda -march=sm_70 " +
				"-Xlinker --plugin-opt=-a -Xlinker --plugin-opt=-b 1.o 2.o -Xlinker -mllvm=-a -Wl,--save-temps -Wl,--lto-emit-llvm " +
				"-Xlinker foo=bar -O2 -n " + nvidia},
		{"CPU", Group{Triple: cpu, Arch: "generic", Kinds: offloadbinary.OpenMP}, &full,
			"clang --no-default-config -o x.img -dumpdir dir/out.x86_64..img. --target=x86_64-pc-linux-gnu " +
				"-Xlinker --plugin-opt=-a -Xlinker --plugin-opt=-b -Wl,--no-undefined 1.o 2.o -Wl,-Bsymbolic -shared -L dir lib.a " +
				"-Xlinker -mllvm=-a -Wl,--lto-emit-llvm -Xlinker foo=bar -Xlinker c -O2 " + nvidia},
		{"CPU with lld", Group{Triple: cpu, Arch: "znver4", Kinds: offloadbinary.OpenMP}, &lld,
			"clang --no-default-config -o x.img -dumpdir a.out.x86_64.znver4.img. --target=x86_64-pc-linux-gnu -march=znver4 -Wl,--no-undefined 1.o 2.o -Wl,-Bsymbolic -shared -Wl,--save-temps"},
		{"SYCL", Group{Triple: "spirv64-unknown-unknown", Kinds: offloadbinary.SYCL}, &plain,
			"clang --no-default-config -o x.img -dumpdir a.out.spirv64..img. --target=spirv64-unknown-unknown 1.o 2.o --sycl-link -Xlinker -triple=spirv64-unknown-unknown -Xlinker -arch="},
		{"separators", Group{Triple: amd, Arch: "a/b", Kinds: offloadbinary.HIP}, &plain,
			"clang --no-default-config -o x.img -dumpdir a.out.amdgcn.a_b.img. --target=amdgcn-amd-amdhsa -mcpu=a/b -Wl,--no-undefined 1.o 2.o"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(test.group.Command(test.opt, []string{"1.o", "2.o"}, "x.img"), " ")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for triple, want := range map[string]string{
		amd: "", nvidia: "", cpu: "", "aarch64-linux-gnu": "", "spirv64-intel": "", "powerpc64le-linux": "", "s390x-linux": "", "loongarch64-linux": "", "i686-linux": "",
		"riscv64-linux": "riscv64 linking is not supported", "foo-bar": "foo linking is not supported", "": " linking is not supported",
	} {
		g := Group{Triple: triple, Kinds: offloadbinary.OpenMP}
		got := ""
		if err := g.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", triple, got, want)
		}
	}
	g := Group{Triple: "spirv64-unknown-unknown", Kinds: offloadbinary.SYCL | offloadbinary.OpenMP}
	if err := g.Check(); err != ErrMixedSYCL {
		t.Error(err)
	}
}

func TestPacking(t *testing.T) {
	groups := []Group{
		{Triple: amd, Arch: "gfx1030", Kinds: offloadbinary.HIP},
		{Triple: cpu, Arch: "generic", Kinds: offloadbinary.OpenMP},
		{Triple: amd, Arch: "gfx90a", Kinds: offloadbinary.HIP | offloadbinary.OpenMP},
		{Triple: amd, Arch: "amdgcnspirv", Kinds: offloadbinary.HIP},
		{Triple: cpu, Arch: "none"},
	}
	if got := Kinds(groups); !slices.Equal(got, []offloadbinary.OffloadKind{offloadbinary.HIP, offloadbinary.OpenMP}) {
		t.Error(got)
	}
	if got := Of(groups, offloadbinary.OpenMP); !slices.Equal(got, []int{1, 2}) {
		t.Error(got)
	}
	list := Of(groups, offloadbinary.HIP)
	if !slices.Equal(list, []int{2, 0, 3}) {
		t.Error(list)
	}
	want := []string{"host-x86_64-unknown-linux-gnu", "hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx1030", "hip-spirv64-amd-amdhsa--amdgcnspirv"}
	if diff := cmp.Diff(want, HIPTargets(groups, list)); diff != "" {
		t.Error(diff)
	}
	// The runtime knows no other name of AMD's architecture.
	if got := HIPTargets([]Group{{Triple: subarch, Arch: "gfx90a", Kinds: offloadbinary.HIP}}, []int{0}); got[1] != want[1] {
		t.Errorf("the entry for %s is %s", subarch, got[1])
	}
	got := strings.Join(FatbinaryCommand("fatbinary", "i686-linux-gnu", []string{"sm_70", "", "sm_90a"}, []string{"a", "b", "c"}, "out"), " ")
	if want := "fatbinary -32 --create out --image3=kind=elf,sm=70,file=a --image3=kind=elf,sm=,file=b --image3=kind=elf,sm=90a,file=c"; got != want {
		t.Error(got)
	}
	got = strings.Join(BundleCommand("bundler", true, "9", want[:2], []string{"i.img"}, "out"), " ")
	if want := "bundler -type=o -bundle-align=4096 -compress -compression-level=9 -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a -input=/dev/null -input=i.img -output=out"; got != want {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	n := Names{Dir: "d"}
	for _, want := range []string{"d/a-000000.o", "d/a-000001.o"} {
		if got := n.File("a", ".o"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	n = Names{Plain: true}
	for _, want := range []string{"_.._a_b.o", "_.._a_b-1.o"} {
		if got := n.File("/../a\nb", ".o"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := n.File(strings.Repeat("x", 1000), ".o"); len(got) > 255 {
		t.Errorf("a name of %d bytes", len(got))
	}
}

func TestTarget(t *testing.T) {
	elf := make([]byte, 64)
	copy(elf, "\x7fELF\x02\x01\x01")
	elf[16] = 3
	set := func(machine, flags int) []byte {
		b := slices.Clone(elf)
		b[18], b[19], b[48], b[49] = byte(machine), byte(machine>>8), byte(flags), byte(flags>>8)
		return b
	}
	for _, test := range []struct {
		data         []byte
		triple, arch string
		fails        bool
	}{
		{set(224, 0x53f), amd, "gfx90a", false},
		{set(224, 0x036), amd, "gfx1030", false},
		{set(224, 0), "", "", true},
		{set(62, 0), "x86_64--", "", false},
		{set(1, 0), "", "", true},
		{[]byte("text"), "", "", true},
		{nil, "", "", true},
	} {
		triple, arch, err := Target(test.data)
		if triple != test.triple || arch != test.arch || (err != nil) != test.fails {
			t.Errorf("%q, %q, %v", triple, arch, err)
		}
	}
}

// TestContainer reads the containers of SPIR-V for Intel.
func TestContainer(t *testing.T) {
	for triple, want := range map[string]bool{"spirv64-intel": true, "spirv64-intel-unknown": true, "spirv64-unknown-unknown": false, "x86_64-intel-linux": false} {
		if NeedsContainer(triple) != want {
			t.Errorf("%s: %v", triple, !want)
		}
	}
	spirv := files.Memory([]byte("\x03\x02\x23\x07 and code"))
	var elf, pack files.Buffer
	if err := errors.Join(WriteContainer(&elf, 22, "spirv64-intel", spirv), WriteContainer(&pack, 23, "spirv64-intel", spirv)); err != nil {
		t.Fatal(err)
	}
	f, err := object.Parse(elf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, s := range f.Sections {
		data, err := f.Data(i)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %q", s.Name, data))
	}
	owner := "\x13\x00\x00\x00%c\x00\x00\x00%c\x00\x00\x00INTELONEOMPOFFLOAD\x00\x00%s"
	notes := fmt.Sprintf(owner, 3, 1, "1.0\x00") + fmt.Sprintf(owner, 5, 3, "0\x001\x00\x00\x00\x00\x00") + fmt.Sprintf(owner, 1, 2, "1\x00\x00\x00")
	want := []string{` "" `, fmt.Sprintf(".note.inteloneompoffload %q", notes), fmt.Sprintf("__openmp_offload_spirv_0 %q", spirv.Bytes())}
	if len(got) != 4 || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("sections are\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var images []offloadbinary.Image
	for p, err := range offloadbinary.Parse(files.Memory(pack.Bytes()), offloadbinary.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, p.Images...)
	}
	if len(images) != 1 || images[0].Kind != offloadbinary.SPIRV || images[0].Get("version") != "1.0" || string(images[0].Content.Bytes()) != string(spirv.Bytes()) {
		t.Errorf("%+v", images)
	}
}

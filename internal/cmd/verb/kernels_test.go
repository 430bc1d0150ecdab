package verb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

const (
	gfx900  = 0x2c | 1<<8
	gfx90a  = 0x3f | 1<<8 | 1<<10
	gfx1100 = 0x41
)

// device returns a kernel with the values that occupancy depends on.
func device(name string, vgprs, scratch int) testelf.Kernel {
	return testelf.Kernel{
		Name: name, CodeSize: uint64(64 + vgprs), Rsrc1: uint32((vgprs - 1) / 8),
		Keys: map[string]any{
			".kernarg_segment_size": 8, ".group_segment_fixed_size": 0, ".private_segment_fixed_size": scratch, ".wavefront_size": 64,
			".sgpr_count": 10, ".vgpr_count": vgprs, ".agpr_count": 0, ".sgpr_spill_count": 0, ".vgpr_spill_count": 0,
			".max_flat_workgroup_size": 256, ".uses_dynamic_stack": false,
		},
	}
}

// writeAll writes files into a new directory.
func writeAll(t *testing.T, contents map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, body := range contents {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, body, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// must runs a command line that must succeed, and returns its output.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	code, stdout, stderr := runIn(dir, args...)
	if code != 0 {
		t.Fatalf("offload %s: exit code %d, %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

func TestInspectKernels(t *testing.T) {
	dir := writeAll(t, map[string][]byte{
		"a.co": testelf.CodeObject{ABI: 4, Flags: gfx90a, Kernels: []testelf.Kernel{device("_Z4gemmPf", 65, 0), device("_Z1aPf", 4, 16)}}.Build(),
		"b.co": testelf.CodeObject{ABI: 3, Flags: gfx900, Kernels: []testelf.Kernel{device("_Z4gemmPf", 24, 0)}}.Build(),
		"text": []byte("no device code"),
	})
	for _, compress := range []string{"--compress=false", "--compress", "--compress=true --frames=entry"} {
		args := append([]string{"bundle", "--output", "all.hipfb", "--entry", "host-x86_64-unknown-linux-gnu=", "--entry", "gfx90a=a.co", "--entry", "gfx900=b.co"}, strings.Fields(compress)...)
		must(t, dir, args...)
		var list []kernels.Kernel
		if err := json.Unmarshal([]byte(must(t, dir, "inspect", "--kernels", "--json", "all.hipfb")), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range list {
			got = append(got, strings.Join([]string{k.ID, k.Arch, k.Name, k.Demangled}, " "))
		}
		want := []string{
			"hipv4-amdgcn-amd-amdhsa--gfx90a gfx90a _Z1aPf a(float*)",
			"hipv4-amdgcn-amd-amdhsa--gfx90a gfx90a _Z4gemmPf gemm(float*)",
			"hipv4-amdgcn-amd-amdhsa--gfx900 gfx900 _Z4gemmPf gemm(float*)",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", compress, diff)
		}
		if o := list[1].Occupancy; o == nil || o.WavesPerSIMD != 7 || o.Max != 8 || strings.Join(o.Limits, ",") != "vgprs" {
			t.Errorf("%s: occupancy %+v", compress, o)
		}
		if list[0].Image != 1 || list[2].Image != 2 || *list[0].Version != 6 || *list[2].Version != 5 {
			t.Errorf("%s: images and versions are %+v", compress, list)
		}
	}
	text := must(t, dir, "inspect", "--kernels", "a.co", "b.co")
	want := `IMAGE  ARCH    CODE  SGPRS  VGPRS  AGPRS  SGPR SPILLS  VGPR SPILLS  SCRATCH  LDS  KERNARG  WORKGROUP  WAVE  WAVES/SIMD  LIMITED BY  FILE  KERNEL
0      gfx90a  68    10     4      0      0            0            16       0    8        256        64    8/8         -           a.co  a(float*)
0      gfx90a  129   10     65     0      0            0            0        0    8        256        64    7/8         vgprs       a.co  gemm(float*)
0      gfx900  88    10     24     0      0            0            0        0    8        256        64    10/10       -           b.co  gemm(float*)
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := must(t, dir, "inspect", "--kernels", "--mangled", "b.co"); !strings.HasSuffix(got, "  _Z4gemmPf\n") {
		t.Errorf("--mangled: %s", got)
	}
	if got := must(t, dir, "inspect", "--kernels", "--json", "text"); got != "[]\n" {
		t.Errorf("a file without device code: %q", got)
	}
	if got := must(t, dir, "inspect", "--summary", "a.co", "b.co", "all.hipfb"); !strings.HasPrefix(got, "ARCH    IMAGES  SIZE\ngfx900  2       ") || !strings.Contains(got, "\ntotal   4       ") {
		t.Errorf("--summary:\n%s", got)
	}
	for _, args := range []string{"inspect --kernels", "inspect --kernels --summary a.co", "inspect --mangled a.co"} {
		if code, _, stderr := runIn(dir, strings.Fields(args)...); code != 2 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", args, code, stderr)
		}
	}
}

// Names with control characters and bytes that are not text are never printed unescaped, and
// broken metadata is an error with file, image and offset.
func TestHostileCodeObjects(t *testing.T) {
	const name = "a\x1b[31m\u202e\u009b1m\x7f|`<script>\xff\n"
	dir := writeAll(t, map[string][]byte{
		"evil\x1b.co": testelf.CodeObject{ABI: 4, Flags: gfx90a, Kernels: []testelf.Kernel{device(name, 4, 0)}}.Build(),
		"broken.co":   testelf.CodeObject{ABI: 4, Flags: gfx90a, Metadata: []byte{0xdf, 0xff, 0xff, 0xff, 0xff}}.Build(),
	})
	for _, args := range [][]string{{"inspect"}, {"inspect", "--kernels"}, {"inspect", "--kernels", "--mangled"}, {"diff", "evil\x1b.co"}, {"inspect", "--kernels", "--json"}, {"inspect", "evil\x1b.co", "--kernels"}, {"check", "--covers=gfx1100"}} {
		code, stdout, stderr := runIn(dir, append(args, "evil\x1b.co")...)
		if code != 0 && args[0] != "check" || stdout == "" {
			t.Fatalf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		for _, r := range stdout + stderr {
			if r != '\n' && !unicode.IsPrint(r) && r != '\u202e' || r == '\u202e' && args[len(args)-1] != "--json" {
				t.Errorf("%q prints %U", args, r)
			}
		}
	}
	for _, verb := range []string{"inspect --kernels", "inspect --kernels --json", "check --covers=gfx90a", "diff broken.co"} {
		code, _, stderr := runIn(dir, append(strings.Fields(verb), "broken.co")...)
		if code != 1 || !strings.Contains(stderr, `broken.co: image 0 ("gfx90a"): metadata at byte 0x`) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q", verb, code, stderr)
		}
	}
}

func TestDiff(t *testing.T) {
	object := func(kernels ...testelf.Kernel) []byte {
		return testelf.CodeObject{ABI: 4, Flags: gfx90a, Kernels: kernels}.Build()
	}
	dir := writeAll(t, map[string][]byte{
		"old.co": object(device("_Z1aPf", 24, 0), device("gone", 4, 0), device("same", 4, 0)),
		"new.co": object(device("_Z1aPf", 94, 0), device("same", 4, 0), device("here", 4, 8)),
		"b.co":   testelf.CodeObject{ABI: 4, Flags: gfx900, Kernels: []testelf.Kernel{device("same", 4, 0)}}.Build(),
	})
	for _, test := range []struct {
		args   string
		code   int
		stdout []string // lines that are printed
		stderr string
	}{
		{"diff old.co old.co", 0, []string{"kernels: 0 changed, 0 added, 0 removed, 3 equal"}, ""},
		{"diff old.co new.co", 0, []string{
			"changed  gfx90a  +70   occupancy 8 to 5 (-3), vgprs 24 to 94 (+70)  a(float*)",
			"removed  gfx90a  68    -                                            gone",
			"kernels: 1 changed, 1 added, 1 removed, 1 equal",
		}, ""},
		{"diff --fail-on=occupancy,removed-kernels old.co new.co", 1, nil, "offload: new.co: limits exceeded: occupancy: gfx90a a(float*); removed-kernels: gfx90a gone\n"},
		{"diff --fail-on=spills,scratch,removed-archs --max-growth=50% old.co new.co", 0, nil, ""},
		{"diff --fail-on removed-archs old.co b.co", 1, []string{"gfx900  -        1", "removed"}, "offload: b.co: limits exceeded: removed-archs: gfx90a\n"},
		{"diff --max-growth=0 new.co new.co", 0, nil, ""},
		{"diff old.co", 2, nil, "offload diff: expected two files, OLD and NEW, found 1. Try: offload diff --help\n"},
		{"diff --max-growth=x old.co new.co", 2, nil, "offload diff: --max-growth: found \"x\", expected a size such as 4096, 100MB or 1GiB, or a percentage such as 5%. Try: offload diff --help\n"},
		{"diff old.co missing", 1, nil, "offload: missing: no such file or directory\n"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
			if code != test.code || stderr != test.stderr {
				t.Errorf("exit code %d, %q; want %d, %q", code, stderr, test.code, test.stderr)
			}
			for _, line := range test.stdout {
				if !strings.Contains(stdout, line) {
					t.Errorf("%q is missing in:\n%s", line, stdout)
				}
			}
		})
	}
	code, stdout, _ := runIn(dir, "diff", "--json", "--fail-on=occupancy", "old.co", "new.co")
	var d struct {
		Archs, Kernels []map[string]any
		Failures       []map[string]any
	}
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"rule": "occupancy", "arch": "gfx90a", "kernel": "_Z1aPf", "delta": -3.0}}
	if diff := cmp.Diff(want, d.Failures); diff != "" || code != 1 || len(d.Kernels) != 3 || d.Kernels[2]["old"] != nil {
		t.Errorf("exit code %d, %d kernels, -want +got:\n%s", code, len(d.Kernels), diff)
	}
	if diff := cmp.Diff(map[string]any{"code_size": 70.0, "vgprs": 70.0, "occupancy": -3.0}, d.Kernels[0]["deltas"]); diff != "" {
		t.Errorf("deltas: -want +got:\n%s", diff)
	}
}

func TestCovers(t *testing.T) {
	object := func(flags uint32, kernels ...testelf.Kernel) []byte {
		return testelf.CodeObject{ABI: 4, Flags: flags, Kernels: kernels}.Build()
	}
	k := device("k", 4, 0)
	dir := writeAll(t, map[string][]byte{
		"tree/a.co": object(gfx1100, k), "tree/sub/b.hsaco": object(gfx90a, k), "tree/readme": []byte("text"), "none/readme": []byte("text"), "none/empty": nil, "none/k.ptx": []byte(".version 7.0\n.target sm_80\n"),
		"none/shader.spv": append([]byte("\x03\x02\x23\x07"), make([]byte, 16)...),
		// An icon: it begins like a COFF object with a section that is not in the file.
		"none/favicon.ico":          []byte("\x00\x00\x01\x00" + strings.Repeat("\x00", 32) + "\x00\x00\x28\x00\x00\x00\x20\x00" + strings.Repeat("\x00", 400)),
		"blas/Lib_lazy_gfx1100.dat": []byte("x"), "blas/Lib_lazy_gfx90a.dat": []byte("x"), "blas/Lib_gfx1100.co": object(gfx1100, k),
		"blas/Kernels.so-000-gfx90a-xnack+.hsaco": object(0x3f|3<<8|1<<10, k), "blas/Lib_gfx1101.co": object(gfx1100, k),
		"split.so": splitLibrary(), "a.co": object(gfx1100, k), "empty.co": object(gfx1100),
	})
	must(t, dir, "bundle", "--compress", "--output", "b.hipfb", "--entry", "host-x86_64-unknown-linux-gnu=", "--entry", "gfx1100=empty.co", "--entry", "gfx11-generic=a.co")
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"gfx1100 a.co", 0, ""},
		{"gfx1100,gfx1101 a.co", 1, "a.co: gfx1101: no code for it\n"},
		{"gfx1100 tree", 1, "tree/sub/b.hsaco: gfx1100: no code for it\n"},
		{"gfx1100 none", 1, "none: no file with device code in the directory or its subdirectories\n"},
		{"gfx1100 none/readme", 1, "none/readme: gfx1100: no device code\n"},
		{"gfx1100 blas", 0, ""},
		{"gfx90a:xnack+ blas", 0, ""},
		{"gfx90a:sramecc+ blas", 1, "blas: gfx90a:sramecc+: partly covered (no for gfx90a:sramecc+:xnack-)\n"},
		{"gfx1101 blas", 1, "blas: gfx1101: no code for it\n"},
		{"gfx1100 split.so", 1, "split.so: gfx1100: no code for it (the device code is in the archives that section .rocm_kpack_ref names, and its marker cannot be read: ELF type 1: expected a shared library or a program)\n"},
		{"gfx1100 b.hipfb", 1, "b.hipfb: gfx1100: the code for it is empty\n"},
		{"gfx11-generic a.co", 2, "--help\n"},
		{"gfx1100", 2, "the input is missing: expected files or directories for --covers. Try: offload check --help\n"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, _, stderr := runIn(dir, append([]string{"check", "--covers"}, strings.Fields(test.args)...)...)
			if code != test.code || !strings.HasSuffix(stderr, test.stderr) || test.stderr == "" && stderr != "" || strings.Count(stderr, "\n") > 1 {
				t.Errorf("exit code %d, %q; want %d, %q", code, stderr, test.code, test.stderr)
			}
		})
	}
	_, stdout, _ := runIn(dir, "check", "--covers=gfx1100", "--json", "b.hipfb", "none/readme")
	want := `{
  "files": [
    {
      "file": "b.hipfb",
      "gpus": [
        {
          "gpu": "gfx1100",
          "verdict": "empty",
          "modes": [
            {
              "mode": "gfx1100",
              "verdict": "empty",
              "how": "native",
              "entry": "hipv4-amdgcn-amd-amdhsa--gfx1100"
            }
          ]
        }
      ]
    },
    {
      "file": "none/readme",
      "gpus": [
        {
          "gpu": "gfx1100",
          "verdict": "host-only",
          "modes": []
        }
      ]
    }
  ]
}
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCoversSplit prints the archives of a split library, and the verdict with older runtimes.
func TestCoversSplit(t *testing.T) {
	object := func(flags uint32) []byte {
		return testelf.CodeObject{ABI: 4, Flags: flags, Kernels: []testelf.Kernel{device("k", 4, 0)}}.Build()
	}
	dir := writeAll(t, map[string][]byte{"any.co": object(gfx90a), "off.co": object(0x3f | 2<<8 | 1<<10), "out/readme": nil})
	var library testelf.Library
	for i, entry := range []string{"gfx90a:xnack-=off.co", "gfx90a=any.co"} {
		must(t, dir, "bundle", "--output", "b", "--entry", "host-x86_64-unknown-linux-gnu=", "--entry", entry)
		b, err := os.ReadFile(filepath.Join(dir, "b"))
		if err != nil {
			t.Fatal(err)
		}
		library.Bundles, library.Wrappers = append(library.Bundles, b), append(library.Wrappers, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.so"), library.Build(), 0o666); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "kpack", "split", "--group=g", "--input=a.so", "--output=out/b.so", "--kpack-dir=k")
	want := "FILE      GPU                     VERDICT                        FOUND   ENTRY                                   ARCHIVE\n" +
		"out/b.so  gfx90a:sramecc+:xnack-  yes (older runtimes: partly)  native  hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-  k/g_gfx90a:xnack-.kpack\n"
	if got := must(t, dir, "check", "--covers=gfx90a:sramecc+:xnack-", "out/b.so"); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "k/g_gfx90a:xnack-.kpack")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runIn(dir, "check", "--covers=gfx90a:sramecc+:xnack-", "out")
	if want := "offload: out/b.so: gfx90a:sramecc+:xnack-: no code for it in some of the bundles (k/g_gfx90a.kpack has no code for b.so#0)\n"; code != 1 || stderr != want {
		t.Errorf("exit code %d, %q; want 1, %q", code, stderr, want)
	}
}

// splitLibrary returns an object whose device code is in packages of their own.
func splitLibrary() []byte {
	b := object.NewBuilder(elf.MachineX8664)
	for name, body := range map[string][]byte{
		".hip_fatbin": make([]byte, 8192), ".hipFatBinSegment": []byte("HIPK\x01\x00\x00\x00marker.."), ".rocm_kpack_ref": []byte("marker"),
	} {
		b.Section(object.BuilderSection{Name: name, Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Content: content.Memory(body)})
	}
	var out content.Buffer
	if err := b.Write(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

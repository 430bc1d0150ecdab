package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
)

// device returns a file with kernels of some architectures. Larger seeds have larger
// figures.
func device(name string, archs, perArch int, seed int64, kernelName func(int) string) *engine.DeviceFile {
	f := &engine.DeviceFile{Name: name, Size: int64(archs) * 10_000}
	for a := range archs {
		arch := fmt.Sprintf("gfx9%02x", a)
		f.Found = append(f.Found, &images.DeviceImage{Offload: "hipv4", Triple: "amdgcn-amd-amdhsa", Arch: arch, Place: images.Place{Form: "bundle", Section: ".hip_fatbin"}, Size: 9000})
		img := kernels.Image{Index: a, Section: ".hip_fatbin", Size: 9000, Arch: arch, Sections: []kernels.Section{{Name: ".text", Size: 5000}, {Name: ".rodata", Size: 500}}}
		for i := range perArch {
			n := int64(i%40) + seed
			waves := int(8 - n%8)
			img.Kernels = append(img.Kernels, kernels.Kernel{
				Image: a, Arch: arch, Section: ".hip_fatbin", Name: kernelName(i), Demangled: kernelName(i), CodeSize: &n, VGPRs: &n, SGPRs: &n, VGPRSpills: &n, SGPRSpills: &n, LDS: &n, Scratch: &n,
				Occupancy: &kernels.Occupancy{WavesPerSIMD: waves, Max: 8, Limits: []string{"vgprs"}},
			})
		}
		f.Images = append(f.Images, img)
	}
	return f
}

// all returns the outputs of a report by format.
func all(t *testing.T, r *Report) map[string]string {
	t.Helper()
	outputs := map[string]string{}
	for format, write := range map[string]func(io.Writer) error{"html": r.WriteHTML, "markdown": r.WriteMarkdown, "json": r.WriteJSON} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		outputs[format] = b.String()
	}
	return outputs
}

// A report is the same whenever, wherever and how often it is made.
func TestDeterministic(t *testing.T) {
	make := func(dir string) *Report {
		r := &Report{Files: []*engine.DeviceFile{device(dir+"a.so", 5, 50, 1, kernelName), device(dir+"b.so", 3, 50, 2, kernelName)}}
		r.Compare([]*engine.DeviceFile{device("old.so", 6, 51, 0, kernelName)})
		return r
	}
	first := all(t, make("/home/user/project/out/"))
	for range 5 {
		if diff := cmp.Diff(first, all(t, make("/home/user/project/out/"))); diff != "" {
			t.Fatal(diff)
		}
	}
	elsewhere := all(t, make("/tmp/x/"))
	for _, format := range []string{"html", "markdown"} {
		if first[format] != elsewhere[format] {
			t.Errorf("%s depends on the directory", format)
		}
		if strings.Contains(first[format], "/home/") {
			t.Errorf("%s has an absolute path", format)
		}
	}
}

func kernelName(i int) string { return fmt.Sprintf("kernel_%d", i) }

func TestNames(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a.so", "a.so"}, {"./dir/a.so b.so", "dir/a.so b.so"}, {"/x/y/a.so", "a.so"}, {"/x/y/a.so /x/z/a.so", "y/a.so z/a.so"},
		{"/x/a.so rel/b.so", "a.so rel/b.so"}, {"/a.so", "a.so"}, {"bazel-out/k8-fastbuild/bin/app/a.so bazel-out/a.so", "app/a.so bazel-out/a.so"}, {"/x/y/a.so /x/b.so", "y/a.so b.so"},
	} {
		if got := strings.Join(displayNames(strings.Fields(test.in)), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.in, got, test.want)
		}
	}
}

// Names cannot end the text that contains them.
func TestHostileNames(t *testing.T) {
	hostile := []string{"</script><script>alert(1)</script>", "<!--", "]]>", `"'><img src=x>`, "a|b`c`<d>\\|", "new\nline\x1b[2J\u202e", strings.Repeat("x", 5000), "@all #1 [a](b)"}
	r := &Report{Files: []*engine.DeviceFile{device("<b>|`.so", 2, len(hostile), 1, func(i int) string { return hostile[i] })}}
	r.Compare([]*engine.DeviceFile{device("old", 3, len(hostile), 0, func(i int) string { return hostile[i] })})
	outputs := all(t, r)
	if n := strings.Count(outputs["html"], "<script"); n != 2 {
		t.Errorf("the page has %d scripts", n)
	}
	if n := strings.Count(outputs["html"], "</script>"); n != 2 {
		t.Errorf("the page has %d ends of scripts", n)
	}
	if strings.Contains(outputs["html"], "<img") || strings.Contains(outputs["html"], "<b>|") {
		t.Error("a name is markup in the page")
	}
	for line := range strings.Lines(outputs["markdown"]) {
		cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1
		if cells >= 0 && cells != 6 && cells != 5 && cells != 4 {
			t.Errorf("%d cells: %s", cells, line)
		}
		if strings.ContainsAny(line, "<\x1b\u202e") || strings.Contains(strings.ReplaceAll(line, "\\`", ""), "`") {
			t.Errorf("a name is markup: %s", line)
		}
	}
	var parsed struct {
		Files []struct{ Kernels []struct{ Name string } }
		Diff  struct{ Kernels []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(outputs["json"]), &parsed); err != nil {
		t.Fatal(err)
	}
	for i, name := range hostile {
		if got := parsed.Files[0].Kernels[i].Name; got != name {
			t.Errorf("JSON has %q for %q", got, name)
		}
	}
	if len(parsed.Diff.Kernels) == 0 {
		t.Error("JSON has no difference")
	}
}

// The page and the summary have the source files of code that has line tables. Lines of the largest kernels fit
// into the page.
func TestSources(t *testing.T) {
	f := device("a.so", 1, 3, 100, kernelName)
	img := &f.Images[0]
	lines := func(n int) (list []kernels.SourceLine) {
		for i := range n {
			list = append(list, kernels.SourceLine{Line: int64(i + 1), Bytes: 1})
		}
		return list
	}
	img.Kernels[1].Sources = []kernels.Source{{File: "/src/x/small.hip", Bytes: 101, Lines: lines(101)}}
	img.Kernels[2].Sources = []kernels.Source{{File: "/src/x/large.hip", Bytes: maxPageLines, Lines: lines(maxPageLines)}}
	img.Sources = []kernels.Source{{File: "/src/y.h", Bytes: 7, Lines: []kernels.SourceLine{{Line: 3, Bytes: 2}, {Line: 9, Bytes: 5}}}, {File: "", Bytes: 900}, {File: "/src/x/small.hip", Bytes: 101, Lines: lines(101)}}
	outputs := all(t, &Report{Files: []*engine.DeviceFile{f}})
	const want = `
#### Code by source file

| Source file | Code | Share | Largest line |
| --- | ---: | ---: | --- |
| no source | 900 B | 89.3 % | – |
| x/small.hip | 101 B | 10.0 % | 1: 1 B |
| y.h | 7 B | 0.7 % | 9: 5 B |
`
	if !strings.HasSuffix(outputs["markdown"], want) {
		t.Errorf("found %s, expected %s", outputs["markdown"], want)
	}
	_, data, _ := strings.Cut(outputs["html"], `id="data">`)
	var page struct {
		Strings []string
		Kernels struct{ Sources [][][]int64 }
		Files   []struct {
			Bundles []struct{ Archs []struct{ Sources [][]int64 } }
		}
	}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&page); err != nil {
		t.Fatal(err)
	}
	if k := page.Kernels.Sources; len(k) != 3 || k[0] != nil || len(k[1][0]) != 2 || len(k[2][0]) != 2+2*maxPageLines {
		t.Errorf("sources of %d kernels: %.200v", len(k), k)
	}
	var other []string
	for _, s := range page.Files[0].Bundles[0].Archs[0].Sources {
		other = append(other, fmt.Sprintf("%q %d", page.Strings[s[0]], s[1]))
	}
	if diff := cmp.Diff([]string{`"" 900`, `"y.h" 7`}, other); diff != "" {
		t.Errorf("sources of other code: %s", diff)
	}
}

// The reports have the redundant architectures, if they were searched.
func TestRedundant(t *testing.T) {
	r := &Report{Files: []*engine.DeviceFile{device("a.so", 2, 1, 1, kernelName)}}
	for format, text := range all(t, r) {
		if strings.Contains(text, "equal instructions") || strings.Contains(text, `"redundant"`) {
			t.Errorf("%s has a section of redundant architectures", format)
		}
	}
	r.Redundant = []Redundant{}
	if text := all(t, r)["markdown"]; !strings.HasSuffix(text, "\n#### Redundant architectures\n\nNo images of two architectures have equal instructions.\n") {
		t.Error(text)
	}
	r.Redundant = []Redundant{{Archs: []string{"gfx900:xnack+", "gfx906:xnack+"}, Generic: "gfx9-generic:xnack+", Images: 2, Bytes: 18000, Saved: 9000}}
	outputs := all(t, r)
	for format, want := range map[string]string{
		"markdown": "| gfx900:xnack+, gfx906:xnack+ | gfx9-generic:xnack+ | 2 | 8.8 KiB |\n",
		"html":     `<tr><td>gfx900:xnack+, gfx906:xnack+</td><td class="t">gfx9-generic:xnack+</td><td>2</td><td>8.8 KiB</td></tr>`,
		"json":     `"redundant": [{"archs":["gfx900:xnack+","gfx906:xnack+"],"generic":"gfx9-generic:xnack+","images":2,"bytes":18000,"saved":9000}]`,
	} {
		if !strings.Contains(outputs[format], want) {
			t.Errorf("%s: no %s in %s", format, want, outputs[format])
		}
	}
}

// Markdown fits into a comment whatever the files are.
func TestMarkdownSize(t *testing.T) {
	for _, test := range []struct {
		name                 string
		files, archs, perArc int
		kernel               func(int) string
	}{
		{"many architectures", 1, 5000, 1, kernelName},
		{"long names", 3, 300, 4, func(i int) string { return strings.Repeat("|", 4000) + fmt.Sprint(i) }},
		{"many files", 2000, 1, 1, kernelName},
		{"nothing", 1, 0, 0, kernelName},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &Report{}
			for i := range test.files {
				r.Files = append(r.Files, device(fmt.Sprintf("%s%d.so", strings.Repeat("<", 300), i), test.archs, test.perArc, 3, test.kernel))
			}
			r.Compare([]*engine.DeviceFile{device("old.so", test.archs/2, test.perArc, 1, test.kernel)})
			var b bytes.Buffer
			if err := r.WriteMarkdown(&b); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if n := utf8.RuneCountInString(text); n >= 65536 || n == 0 {
				t.Errorf("%d characters", n)
			}
			if !strings.Contains(text, "| Architecture |") {
				t.Errorf("no table: %.500s", text)
			}
		})
	}
}

// The summary names the worst occupancy and the worst changes.
func TestMarkdown(t *testing.T) {
	r := &Report{Files: []*engine.DeviceFile{device("dir/a.so", 2, 3, 5, kernelName)}}
	r.Compare([]*engine.DeviceFile{device("old.so", 1, 4, 3, kernelName)})
	const want = `### Device code

dir/a.so: 17.6 KiB of images for 2 architectures, 6 kernels

| Architecture | Images | Size | Kernels | Worst occupancy | VGPR spills or scratch |
| --- | ---: | ---: | ---: | --- | ---: |
| gfx900 | 1 | 8.8 KiB | 3 | 1 of 8: kernel\_2 | 3 |
| gfx901 | 1 | 8.8 KiB | 3 | 1 of 8: kernel\_2 | 3 |

#### Changes

| Architecture | | Old | New | Difference |
| --- | --- | ---: | ---: | ---: |
| gfx901 | added | 0 B | 8.8 KiB | +8.8 KiB |
| 1 more architecture | same | | | |

| Kernel | Architecture | | Difference |
| --- | --- | --- | --- |
| kernel\_0 | gfx900 | changed | code +2, VGPRs +2, SGPRs +2, VGPR spills +2, SGPR spills +2, scratch +2, LDS +2, occupancy -2 |
| kernel\_1 | gfx900 | changed | code +2, VGPRs +2, SGPRs +2, VGPR spills +2, SGPR spills +2, scratch +2, LDS +2, occupancy -2 |
| kernel\_2 | gfx900 | changed | code +2, VGPRs +2, SGPRs +2, VGPR spills +2, SGPR spills +2, scratch +2, LDS +2, occupancy -2 |
| kernel\_3 | gfx900 | removed |  |

4 kernels differ, 0 equal.
`
	if diff := cmp.Diff(want, all(t, r)["markdown"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Characters that reorder or hide text are escaped in all formats, wherever a name has them.
func TestFormatCharacters(t *testing.T) {
	const hidden = "\u202a\u202e\u2066\u2069\u200b\u200f\ufeff\u00ad\u061c\U000e0041\u009b\x7f"
	mode := "mode" + hidden
	f := device("dir/a"+hidden+".so", 2, 3, 5, func(i int) string { return fmt.Sprint("k", hidden, i) })
	for i := range f.Images {
		img := &f.Images[i]
		img.Arch += hidden
		img.Section += hidden
		img.Sections[0].Name += hidden
		f.Found[i].Arch, f.Found[i].Section = img.Arch, img.Section
		for k := range img.Kernels {
			kernel := &img.Kernels[k]
			kernel.Arch, kernel.Section, kernel.OMPMode = img.Arch, img.Section, &mode
			kernel.Sources = []kernels.Source{{File: "s" + hidden + ".hip", Bytes: 5, Lines: []kernels.SourceLine{{Line: 1, Bytes: 5}}}}
		}
	}
	r := &Report{Files: []*engine.DeviceFile{f}, Redundant: []Redundant{{Archs: []string{"gfx" + hidden, "gfx1"}, Generic: "g" + hidden, Images: 2, Bytes: 2, Saved: 1}}}
	r.Compare([]*engine.DeviceFile{device("old"+hidden+".so", 2, 4, 3, func(i int) string { return fmt.Sprint("k", hidden, i) })})
	for format, text := range all(t, r) {
		for _, c := range hidden {
			if i := strings.IndexRune(text, c); i >= 0 {
				t.Errorf("%s: got %U in %q, want it escaped", format, c, text[max(0, i-80):min(len(text), i+20)])
			}
		}
	}
}

package coverage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/target"
)

func TestParseGPU(t *testing.T) {
	for name, want := range map[string]string{
		"gfx1100":                "gfx1100",
		"gfx900":                 "gfx900:xnack- gfx900:xnack+",
		"gfx942:xnack+":          "gfx942:sramecc-:xnack+ gfx942:sramecc+:xnack+",
		"gfx942:xnack-:sramecc+": "gfx942:sramecc+:xnack-",
		"gfx90a":                 "gfx90a:sramecc-:xnack- gfx90a:sramecc-:xnack+ gfx90a:sramecc+:xnack- gfx90a:sramecc+:xnack+",
		"":                       "error", "gfx": "error", "gfx9-generic": "error", "sm_80": "error", "gfx999": "error", "gfx1100:xnack+": "error",
		"gfx900:sramecc+": "error", "gfx90a:xnack": "error", "gfx90a:xnack+:xnack+": "error", "gfx90a:tgsplit+": "error", "amdgcnspirv": "error",
	} {
		t.Run(name, func(t *testing.T) {
			gpu, err := ParseGPU(name)
			var modes []string
			for _, m := range gpu.Modes {
				modes = append(modes, m.String())
			}
			got := strings.Join(modes, " ")
			if err != nil {
				got = "error"
			}
			if got != want {
				t.Errorf("got %s (%v), want %s", got, err, want)
			}
		})
	}
}

// codeOf returns the target in the ELF header of code for a target ID.
func codeOf(id string) *target.CodeObject {
	t := &target.CodeObject{Version: 6}
	t.Processor, _, _ = strings.Cut(id, ":")
	if strings.HasSuffix(t.Processor, "-generic") {
		t.Generic = 1
	}
	state := func(name string) target.FeatureState {
		switch {
		case strings.Contains(id, name+"+"):
			return target.FeatureOn
		case strings.Contains(id, name+"-"):
			return target.FeatureOff
		}
		return target.FeatureAny
	}
	for _, name := range target.FeatureNames() {
		t.Features = t.Features.With(name, state(name))
	}
	return t
}

// imagesOf returns the images that words describe: TARGETID, TARGETID=CODE where
// the code is for another target, with ! for empty code and 0 for no bytes.
func imagesOf(words string) (list []Image) {
	for word := range strings.FieldsSeq(words) {
		id, text, other := strings.Cut(word, "=")
		img := Image{Size: 100}
		if id, img.Empty = strings.CutSuffix(id, "!"); img.Empty {
			word = id
		}
		if s, none := strings.CutSuffix(id, "0.."); none {
			id, img.Size = s, 0
		}
		if !other {
			text = id
		}
		switch {
		case id == "spirv":
			img.ID = "hip-spirv64-amd-amdhsa--amdgcnspirv"
		case id == "spirv2":
			img.ID = "hip-spirv64-amd-amdhsa-unknown-amdgcnspirv"
		case text == "none":
			img.ID = "hipv4-amdgcn-amd-amdhsa--" + id
		default:
			img.ID, img.Code = "hipv4-amdgcn-amd-amdhsa--"+id, codeOf(text)
		}
		list = append(list, img)
	}
	return list
}

// ask returns "verdict how entry" for the only mode of a GPU.
func ask(t *testing.T, mode string, bundles ...Bundle) string {
	t.Helper()
	gpu, err := ParseGPU(mode)
	if err != nil || len(gpu.Modes) != 1 {
		t.Fatalf("%s: %v, %v", mode, gpu, err)
	}
	r := Ask("f", bundles, []GPU{gpu})
	g := r.GPUs[0]
	if len(g.Modes) == 0 {
		return string(g.Verdict)
	}
	m, words := g.Modes[0], []string{string(g.Verdict)}
	if m.How != nil {
		words = append(words, string(*m.How))
	}
	if m.Entry != nil {
		words = append(words, strings.TrimPrefix(*m.Entry, "hipv4-amdgcn-amd-amdhsa--"))
	}
	return strings.Join(words, " ")
}

func TestBundle(t *testing.T) {
	const spirv = "hip-spirv64-amd-amdhsa--amdgcnspirv"
	for _, test := range []struct{ name, mode, entries, want string }{
		{"exact", "gfx1100", "gfx1030 gfx1100", "yes native gfx1100"},
		{"none", "gfx1100", "gfx1030 gfx1101", "no"},
		{"open feature", "gfx900:xnack+", "gfx900", "yes native gfx900"},
		{"same feature", "gfx90a:sramecc+:xnack-", "gfx90a:xnack+ gfx90a:xnack-", "yes native gfx90a:xnack-"},
		{"other feature", "gfx900:xnack+", "gfx900:xnack-", "no"},
		{"the first of several", "gfx90a:sramecc+:xnack+", "gfx90a:sramecc+ gfx90a:xnack+", "yes native gfx90a:sramecc+"},
		{"native before generic", "gfx1100", "gfx11-generic gfx1100", "yes native gfx1100"},
		{"generic", "gfx1103", "gfx11-generic", "yes generic gfx11-generic"},
		{"generic with features", "gfx942:sramecc+:xnack-", "gfx9-4-generic:xnack-", "yes generic gfx9-4-generic:xnack-"},
		{"generic with other features", "gfx942:sramecc+:xnack-", "gfx9-4-generic:xnack+", "no"},
		{"generic before SPIR-V", "gfx1201", "spirv gfx12-generic", "yes generic gfx12-generic"},
		{"SPIR-V", "gfx90a:sramecc+:xnack-", "spirv gfx1100", "yes spirv " + spirv},
		{"SPIR-V, other name", "gfx1100", "spirv2", "yes spirv hip-spirv64-amd-amdhsa-unknown-amdgcnspirv"},
		{"gfx906 has no generic", "gfx906:sramecc+:xnack-", "gfx9-generic", "no"},
		{"gfx906 has no generic, even by name", "gfx906:sramecc+:xnack-", "gfx9-generic:sramecc+:xnack-=gfx9-generic", "no"},
		{"gfx900 has one", "gfx900:xnack-", "gfx9-generic", "yes generic gfx9-generic"},
		{"gfx908 has none", "gfx908:sramecc+:xnack-", "gfx9-generic gfx9-4-generic", "no"},
		{"gfx1250 has none", "gfx1250", "gfx12-generic", "no"},
		{"no bytes", "gfx1100", "gfx11000.. gfx11-generic", "yes generic gfx11-generic"},
		{"other code", "gfx1100", "gfx1100=gfx1101 gfx11-generic", "no"},
		{"generic code under the native name", "gfx1100", "gfx1100=gfx11-generic", "yes native gfx1100"},
		{"code with other features", "gfx900:xnack+", "gfx900=gfx900:xnack-", "no"},
		{"no code object", "gfx1100", "gfx1100=none", "no"},
		{"empty", "gfx1100", "gfx1100! gfx11-generic", "empty native gfx1100"},
		{"all are empty", "gfx1100", "gfx1100! gfx1030!", "yes native gfx1100"},
		{"feature that the processor does not have", "gfx1100", "gfx1100:xnack+", "no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ask(t, test.mode, Bundle{Images: imagesOf(test.entries)}); got != test.want {
				t.Errorf("%s in %q: got %q, want %q", test.mode, test.entries, got, test.want)
			}
		})
	}
	t.Run("kinds and generic versions", func(t *testing.T) {
		list := imagesOf("gfx1100")
		list[0].ID = "hip-amdgcn-amd-amdhsa--gfx1100"
		if got := ask(t, "gfx1100", Bundle{Images: list}); !strings.HasPrefix(got, "yes native") {
			t.Errorf("kind hip: %s", got)
		}
		list[0].ID = "openmp-amdgcn-amd-amdhsa--gfx1100"
		if got := ask(t, "gfx1100", Bundle{Images: list}); got != "no" {
			t.Errorf("kind openmp: %s", got)
		}
		list = imagesOf("gfx11-generic")
		list[0].Code.Generic = 0
		if got := ask(t, "gfx1100", Bundle{Images: list}); got != "no" {
			t.Errorf("generic version 0: %s", got)
		}
	})
}

func TestFile(t *testing.T) {
	for _, test := range []struct{ name, bundles, want string }{
		{"nothing", "", "host-only"},
		{"all", "gfx1100 | gfx1100 gfx1030", "yes native gfx1100"},
		{"one is missing", "gfx1100 | gfx1030", "partly native gfx1100"},
		{"the first is missing", "gfx1030 | gfx1100", "partly"},
		{"none", "gfx1030 | gfx1030", "no"},
		{"empty bundles do not count", "gfx1030! | gfx1100", "yes native gfx1100"},
		{"only empty bundles", "gfx1030! | gfx1100!", "partly"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var bundles []Bundle
			for part := range strings.SplitSeq(test.bundles, "|") {
				if list := imagesOf(part); list != nil {
					bundles = append(bundles, Bundle{Images: list})
				}
			}
			if got := ask(t, "gfx1100", bundles...); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("modes differ", func(t *testing.T) {
		gpu, _ := ParseGPU("gfx900")
		r := Ask("f", []Bundle{{Images: imagesOf("gfx900:xnack-")}}, []GPU{gpu})
		entry, how := "hipv4-amdgcn-amd-amdhsa--gfx900:xnack-", Native
		want := FileReport{File: "f", GPUs: []GPUReport{{GPU: "gfx900", Verdict: Partly, Modes: []ModeReport{
			{Mode: "gfx900:xnack-", Verdict: Yes, How: &how, Entry: &entry}, {Mode: "gfx900:xnack+", Verdict: No},
		}}}}
		if diff := cmp.Diff(want, r, cmp.AllowUnexported(FileReport{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		all := Report{Files: []FileReport{r}}
		if want := "f: gfx900: partly covered (no for gfx900:xnack+)"; all.Covered() || all.Missing() != want {
			t.Errorf("got %q, want %q", all.Missing(), want)
		}
	})
}

func TestBareAndTensile(t *testing.T) {
	bare := func(words string) Bundle {
		list := imagesOf(words)
		for i := range list {
			list[i].ID = ""
		}
		return Bundle{Images: list, Bare: true}
	}
	if got := ask(t, "gfx900:xnack+", bare("gfx1100 gfx900:xnack+")); got != "yes code object" {
		t.Errorf("got %q", got)
	}
	if got := ask(t, "gfx906:sramecc+:xnack-", bare("gfx9-generic")); got != "yes code object" {
		t.Errorf("generic: got %q", got)
	}
	if got := ask(t, "gfx900:xnack+", bare("gfx900:xnack-")); got != "no" {
		t.Errorf("got %q", got)
	}
	var gpus []GPU
	for _, name := range []string{"gfx900", "gfx1100", "gfx1101", "gfx1102"} {
		gpu, err := ParseGPU(name)
		if err != nil {
			t.Fatal(err)
		}
		gpus = append(gpus, gpu)
	}
	r := askTensile("dir", map[string]bool{"gfx900": true, "gfx1100": true, "gfx1101": true}, map[string][]Bundle{
		"gfx900": {bare("gfx900:xnack-")}, "gfx1100": {bare("gfx1101"), bare("gfx1100")}, "gfx1102": {bare("gfx1102")},
	}, gpus)
	var got []string
	for _, g := range r.GPUs {
		got = append(got, g.GPU+" "+string(g.Verdict))
	}
	if diff := cmp.Diff([]string{"gfx900 partly", "gfx1100 yes", "gfx1101 no", "gfx1102 no"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

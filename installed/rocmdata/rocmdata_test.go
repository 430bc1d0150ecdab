package rocmdata

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindTensile(t *testing.T) {
	for _, test := range []struct {
		name string
		dirs []Dir
		want map[string]map[string][]string // code by directory and processor
		only []string                       // processors that only a catalogue names
	}{
		{
			"a directory for each processor",
			[]Dir{
				{"lib/library", []string{"lib/library/TensileManifest.txt", "lib/library/TensileLibrary_lazy_gfx942.dat"}},
				{"lib/library/gfx90a-xnack+", []string{"lib/library/gfx90a-xnack+/Kernels.so-000-gfx90a-xnack+.hsaco"}},
			},
			map[string]map[string][]string{"lib/library": {"gfx90a": {"lib/library/gfx90a-xnack+/Kernels.so-000-gfx90a-xnack+.hsaco"}}},
			[]string{"gfx942"},
		},
		{
			"a package, code of fallbacks",
			[]Dir{{"a.whl!blas", []string{"a.whl!blas/T_fallback_gfx90a.hsaco", "a.whl!blas/T_gfx90a.co", "a.whl!blas/T_gfx90a.dat"}}},
			map[string]map[string][]string{"a.whl!blas": {"gfx90a": {"a.whl!blas/T_fallback_gfx90a.hsaco", "a.whl!blas/T_gfx90a.co"}}},
			nil,
		},
		{"a catalogue without a processor", []Dir{{"d", []string{"d/TensileLibrary.dat", "d/k_gfx1100.co"}}}, map[string]map[string][]string{"d": {"gfx1100": {"d/k_gfx1100.co"}}}, nil},
		{"no catalogue", []Dir{{"d", []string{"d/k_gfx1100.co"}}}, map[string]map[string][]string{}, nil},
		{"no processor", []Dir{{"d", []string{"d/a.dat", "d/a.co"}}}, map[string]map[string][]string{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(map[string]map[string][]string)
			var only []string
			for _, d := range FindTensile(test.dirs) {
				got[d.Name] = d.Code
				for processor := range d.Catalogues {
					if d.Code[processor] == nil {
						only = append(only, processor)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || !slices.Equal(only, test.only) {
				t.Errorf("got only catalogues for %v, want %v; code, -want +got:\n%s", only, test.only, diff)
			}
		})
	}
}

func TestFindData(t *testing.T) {
	const db, images = "share/miopen/db", "lib/aotriton.images"
	for _, test := range []struct {
		dir, file       string
		data, processor string
	}{
		{db, "gfx942130.kdb", db, "gfx942"},
		{db, "gfx1030_36.db.txt", db, "gfx1030"},
		{db, "gfx908_ConvAsm1x1U_decoder.ktn.model", db, "gfx908"},
		{db, "gfx942130.txt", "", ""},
		{"db", "gfx942130.kdb", "", ""},
		{images + "/amd-gfx11xx/flash", "a.aks2", images, "gfx11xx"},
		{"a.whl!aotriton.images/amd-gfx942", "a.zip", "a.whl!aotriton.images", "gfx942"},
		{images + "/amd-gfx942", "a.txt", "", ""},
		{images + "/nvidia-sm80", "a.aks2", "", ""},
	} {
		t.Run(test.dir+"/"+test.file, func(t *testing.T) {
			var data, processor string
			for _, d := range FindData([]Dir{{test.dir, []string{test.dir + "/" + test.file}}}) {
				data, processor = d.Name, d.Files[0].Processor
			}
			if data != test.data || processor != test.processor {
				t.Errorf("got %q in %q, want %q in %q", processor, data, test.processor, test.data)
			}
		})
	}
}

func TestCodeTarget(t *testing.T) {
	for name, want := range map[string]string{
		"lib/Kernels.so-000-gfx90a-xnack+.hsaco":         "gfx90a:xnack+",
		"a.whl!gfx942/Kernels.so-000-gfx90a-xnack-.co":   "gfx90a:xnack-",
		"lib/Kernels.so-000-gfx90a-sramecc+-xnack-.co":   "gfx90a:sramecc+:xnack-",
		"TensileLibrary_Type_DD_fallback_gfx1100.hsaco":  "gfx1100",
		"lib/gfx942/hipblasltTransform.hsaco":            "",
		"lib/hipblasltExtOpLibrary_gfx11-generic_abc.co": "gfx11-generic",
	} {
		t.Run(name, func(t *testing.T) {
			if got := CodeTarget(name); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

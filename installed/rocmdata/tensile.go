package rocmdata

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Tensile is a directory of Tensile, the generator of matrix kernels. The processor of a file is in its
// name: TensileLibrary_lazy_gfx942.dat, TensileLibrary_Type_HH_Contraction_l_Ailk_Bljk_Cijk_Dijk_fallback_gfx90a.hsaco,
// Kernels.so-000-gfx90a-xnack+.hsaco.
type Tensile struct {
	Name string
	// Catalogues are the processors that .dat files name.
	Catalogues map[string]bool
	// Code has the code files by the processor in their name.
	Code map[string][]string
	// Files are the files of both kinds.
	Files map[string]bool

	hasCatalogue bool // also one without a processor
}

// FindTensile returns the directories of Tensile among dirs. The directory of a processor, such as
// library/gfx942, is part of the directory that contains it.
func FindTensile(dirs []Dir) []*Tensile {
	index := make(map[string]*Tensile)
	var all []*Tensile
	for _, dir := range dirs {
		name := dir.Name
		if id := CodeTarget(name); id != "" && inFileName(id) == baseName(name) {
			name = filepath.Dir(name)
		}
		t := index[name]
		if t == nil {
			t = &Tensile{Name: name, Catalogues: make(map[string]bool), Code: make(map[string][]string), Files: make(map[string]bool)}
			index[name] = t
			all = append(all, t)
		}
		t.add(dir)
	}
	return slices.DeleteFunc(all, func(t *Tensile) bool { return !t.hasCatalogue || len(t.Catalogues)+len(t.Code) == 0 })
}

// add adds the catalogues and code files of a directory.
func (t *Tensile) add(dir Dir) {
	for _, name := range slices.Sorted(slices.Values(dir.Files)) {
		base := baseName(name)
		processor := target.FindProcessor(base)
		switch {
		case filepath.Ext(base) == ".dat":
			t.hasCatalogue = true
			if t.Files[name] = true; processor != "" {
				t.Catalogues[processor] = true
			}
		case isTensileCode(base) && processor != "":
			t.Files[name] = true
			t.Code[processor] = append(t.Code[processor], name)
		}
	}
}

// CodeTarget returns the target ID that the name of a code file or of a directory states, such as gfx90a:xnack+ for
// gfx90a-xnack+, or "".
func CodeTarget(name string) string {
	base := baseName(name)
	id := target.FindProcessor(base)
	if id == "" {
		return ""
	}
	for _, feature := range target.FeatureNames() {
		for _, on := range []bool{true, false} {
			setting := ":" + target.Feature{Name: feature, On: on}.String()
			if strings.Contains(base, inFileName(id+setting)) {
				id += setting
				break
			}
		}
	}
	return id
}

// inFileName returns a target ID as Tensile writes it in names of files.
func inFileName(id string) string { return strings.ReplaceAll(id, ":", "-") }

// isTensileCode reports whether a name has the extension of Tensile's code files.
func isTensileCode(name string) bool {
	extension := filepath.Ext(name)
	return extension == ".co" || extension == ".hsaco"
}

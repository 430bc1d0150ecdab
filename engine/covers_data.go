package engine

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/files"
)

// data reports on the folders of data of libraries: those of Tensile (rocBLAS, hipBLASLt, hipSPARSELt),
// of MIOpen and of AOTriton. It returns the folders without the files of these.
func (c *coverer) data(ctx context.Context, folders []files.Folder) (rest []files.Folder, list []coverage.FileReport, err error) {
	gone := make(map[string]bool)
	for _, t := range tensileFolders(folders) {
		code := make(map[string][]coverage.Bundle)
		for processor, names := range t.code {
			for _, name := range names {
				bundles, _, err := c.bundles(ctx, name)
				if err != nil {
					return nil, nil, err
				}
				code[processor] = append(code[processor], bundles...)
			}
		}
		list = append(list, coverage.AskTensile(t.name, t.catalogue, code, c.gpus))
		for name := range t.part {
			gone[name] = true
		}
	}
	for _, d := range dataFolders(folders) {
		for i := range d.data {
			gone[d.data[i].file] = true
			if err := c.checkDatum(&d.data[i]); err != nil {
				return nil, nil, err
			}
		}
		list = append(list, askData(d.name, d.data, c.gpus))
	}
	for _, folder := range folders {
		folder.Files = slices.DeleteFunc(slices.Clone(folder.Files), func(name string) bool { return gone[name] })
		rest = append(rest, folder)
	}
	return rest, list, nil
}

// dataFolder is a folder of data of MIOpen or AOTriton.
type dataFolder struct {
	name string
	data []datum
}

// dataFolders recognizes folders of data by their names.
func dataFolders(folders []files.Folder) []*dataFolder {
	index := make(map[string]*dataFolder)
	var all []*dataFolder
	for _, folder := range folders {
		for _, find := range []func(files.Folder) (string, []datum){miopenData, aotritonData} {
			name, data := find(folder)
			if len(data) == 0 {
				continue
			}
			if index[name] == nil {
				index[name] = &dataFolder{name: name}
				all = append(all, index[name])
			}
			index[name].data = append(index[name].data, data...)
		}
	}
	return all
}

// checkDatum sets the fault of a file.
func (c *coverer) checkDatum(d *datum) error {
	head, size, err := c.readHead(d.file)
	if err == nil {
		d.Fault = d.check(head, size)
	}
	return err
}

// baseName returns the last element of the name of a file, which can be in a package.
func baseName(name string) string {
	base := filepath.Base(name)
	return base[strings.LastIndexByte(base, '!')+1:]
}

// tensileFolder is a folder of Tensile, the generator of matrix kernels.
type tensileFolder struct {
	name       string
	catalogues int
	catalogue  map[string]bool     // processors that .dat files name
	code       map[string][]string // code files by the processor in their name
	part       map[string]bool     // all files of both kinds
}

// tensileFolders recognizes folders of Tensile by their catalogues and code files. The folder of a
// processor, such as library/gfx942, is part of the folder that contains it.
func tensileFolders(folders []files.Folder) []*tensileFolder {
	index := make(map[string]*tensileFolder)
	var all []*tensileFolder
	for _, folder := range folders {
		name := folder.Name
		if processor, _, _ := strings.Cut(baseName(name), "-xnack"); processor != "" && target.FindProcessor(processor) == processor {
			name = filepath.Dir(name)
		}
		t := index[name]
		if t == nil {
			t = &tensileFolder{name: name, catalogue: make(map[string]bool), code: make(map[string][]string), part: make(map[string]bool)}
			index[name] = t
			all = append(all, t)
		}
		t.add(folder)
	}
	return slices.DeleteFunc(all, func(t *tensileFolder) bool { return t.catalogues == 0 || len(t.catalogue)+len(t.code) == 0 })
}

// add adds the catalogues and code files of a folder.
func (t *tensileFolder) add(folder files.Folder) {
	for _, name := range slices.Sorted(slices.Values(append(slices.Clone(folder.Files), folder.Links...))) {
		base := baseName(name)
		processor := target.FindProcessor(base)
		switch filepath.Ext(base) {
		case ".dat":
			t.catalogues++
			if t.part[name] = true; processor != "" {
				t.catalogue[processor] = true
			}
		case ".co", ".hsaco":
			if processor != "" {
				t.part[name] = true
				t.code[processor] = append(t.code[processor], name)
			}
		}
	}
}

// datum is a file of a folder of data, and the GPUs that it is for.
type datum struct {
	coverage.Datum
	file  string
	check func(head []byte, size int64) string
}

// askData returns the data that GPUs find in a folder.
func askData(folder string, data []datum, gpus []coverage.GPU) coverage.FileReport {
	list := make([]coverage.Datum, len(data))
	for i := range data {
		list[i] = data[i].Datum
	}
	return coverage.AskData(folder, list, gpus)
}

// miopenData returns the databases of a folder share/miopen/db of MIOpen. The name of each begins with
// a processor and the number of compute units, in hexadecimal or after an underscore: gfx942130.kdb,
// gfx90a6e.HIP.fdb.txt, gfx1030_36.db.txt, gfx908_ConvAsm1x1U_decoder.ktn.model.
func miopenData(folder files.Folder) (string, []datum) {
	if !strings.HasSuffix(filepath.ToSlash(folder.Name), "miopen/db") {
		return "", nil
	}
	var data []datum
	for _, name := range slices.Concat(folder.Files, folder.Links) {
		base := baseName(name)
		if !strings.HasPrefix(base, "gfx") {
			continue
		}
		d := datum{file: name, check: notEmpty}
		d.Name = name
		switch {
		case strings.HasSuffix(base, ".kdb"), strings.HasSuffix(base, ".db"):
			d.check = sqlite
		case !strings.HasSuffix(base, ".db.txt") && !strings.HasSuffix(base, ".fdb.txt") && !strings.HasSuffix(base, ".model"):
			continue
		}
		if d.Processor = databaseProcessor(base); d.Processor != "" {
			data = append(data, d)
		}
	}
	return folder.Name, data
}

// databaseProcessor returns the processor of a file of MIOpen. The number of compute units can follow
// without a separator.
func databaseProcessor(base string) string {
	stem := base[:strings.IndexAny(base+".", "._")]
	stem = stem[:strings.IndexAny(stem+"-", "-")]
	for n := len(stem); n > len("gfx"); n-- {
		units := stem[n:]
		if len(units) > 3 || strings.Trim(units, "0123456789abcdef") != "" {
			continue
		}
		if _, ok := target.AMDGPUFeatures(stem[:n]); ok {
			return stem[:n]
		}
	}
	return ""
}

func notEmpty(_ []byte, size int64) string {
	if size == 0 {
		return "it is empty"
	}
	return ""
}

func sqlite(head []byte, size int64) string {
	const magic = "SQLite format 3\x00"
	if string(head) != magic {
		return fmt.Sprintf("not an SQLite database: found %d bytes that begin with %.16q", size, head)
	}
	return ""
}

// aotritonImages is the folder with the archives of AOTriton. Each of its folders has those for a
// processor or a family: amd-gfx942, amd-gfx11xx, amd-gfx120x.
const aotritonImages = "aotriton.images"

// aotritonData returns the archives in one of these folders, and the name of the folder of all.
func aotritonData(folder files.Folder) (string, []datum) {
	dir, inner, ok := strings.Cut(filepath.ToSlash(folder.Name)+"/", "/"+aotritonImages+"/")
	if !ok {
		if dir, inner, ok = strings.Cut(filepath.ToSlash(folder.Name)+"/", "!"+aotritonImages+"/"); !ok {
			return "", nil
		}
	}
	family, _, _ := strings.Cut(inner, "/")
	processor, ok := strings.CutPrefix(family, "amd-")
	if !ok || !strings.HasPrefix(processor, "gfx") {
		return "", nil
	}
	var data []datum
	for _, name := range slices.Concat(folder.Files, folder.Links) {
		d := datum{file: name, check: aks2}
		d.Name, d.Processor = name, processor
		switch path.Ext(baseName(name)) {
		case ".aks2":
		case ".zip":
			d.check = zipArchive
		default:
			continue
		}
		data = append(data, d)
	}
	return folder.Name[:len(dir)+1+len(aotritonImages)], data
}

// aks2 checks the header of an archive: AKS2, and in 32 bits the size of its content, the number of
// kernels, and the size of their list. An XZ file follows.
func aks2(head []byte, size int64) string {
	const headerSize = 16
	switch {
	case len(head) < headerSize || string(head[:4]) != "AKS2":
		return fmt.Sprintf("not an AKS2 archive: found %d bytes that begin with %.16q", size, head)
	case head[8]|head[9]|head[10]|head[11] == 0:
		return "it has no kernels"
	case size == headerSize:
		return "it is cut after its header"
	}
	return ""
}

func zipArchive(head []byte, size int64) string {
	if len(head) < 4 || string(head[:4]) != "PK\x03\x04" {
		return fmt.Sprintf("not a zip file with kernels: found %d bytes that begin with %.16q", size, head)
	}
	return ""
}

package rocmdata

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Data is a directory with data of MIOpen or AOTriton.
type Data struct {
	Name  string
	Files []File
}

// File is a file of such a directory.
type File struct {
	Name string
	// Processor is the processor of the data. Each x stands for a digit: gfx11xx.
	Processor string

	check func(head []byte, size int64) Fault
}

// Fault describes why a file cannot be used. The zero value is the fault of a good file.
type Fault struct {
	Text  string
	Empty bool // it has no data
}

// Check checks the first 16 bytes of the file, or all of a shorter one, and its size.
func (f *File) Check(head []byte, size int64) Fault { return f.check(head, size) }

// FindData returns the directories of data among dirs.
func FindData(dirs []Dir) []*Data {
	index := make(map[string]*Data)
	var all []*Data
	for _, dir := range dirs {
		for _, find := range []func(Dir) (string, []File){miopen, aotriton} {
			name, data := find(dir)
			if len(data) == 0 {
				continue
			}
			if index[name] == nil {
				index[name] = &Data{Name: name}
				all = append(all, index[name])
			}
			index[name].Files = append(index[name].Files, data...)
		}
	}
	return all
}

// miopen returns the databases of a directory share/miopen/db of MIOpen. The name of each begins with
// a processor and the number of compute units, in hexadecimal or after an underscore: gfx942130.kdb,
// gfx90a6e.HIP.fdb.txt, gfx1030_36.db.txt, gfx908_ConvAsm1x1U_decoder.ktn.model.
func miopen(dir Dir) (string, []File) {
	if !strings.HasSuffix(filepath.ToSlash(dir.Name), "miopen/db") {
		return "", nil
	}
	var data []File
	for _, name := range dir.Files {
		base := baseName(name)
		if !strings.HasPrefix(base, "gfx") {
			continue
		}
		f := File{Name: name, Processor: databaseProcessor(base), check: notEmpty}
		switch {
		case strings.HasSuffix(base, ".kdb"), strings.HasSuffix(base, ".db"):
			f.check = sqlite
		case !strings.HasSuffix(base, ".db.txt") && !strings.HasSuffix(base, ".fdb.txt") && !strings.HasSuffix(base, ".model"):
			continue
		}
		if f.Processor != "" {
			data = append(data, f)
		}
	}
	return dir.Name, data
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

func notEmpty(_ []byte, size int64) Fault {
	if size == 0 {
		return Fault{"it is empty", true}
	}
	return Fault{}
}

func sqlite(head []byte, size int64) Fault {
	const magic = "SQLite format 3\x00"
	if string(head) != magic {
		return Fault{Text: fmt.Sprintf("not an SQLite database: found %d bytes that begin with %.16q", size, head)}
	}
	return Fault{}
}

// aotritonImages is the directory with the archives of AOTriton. Each of its directories has those for
// a processor or a family: amd-gfx942, amd-gfx11xx, amd-gfx120x.
const aotritonImages = "aotriton.images"

// aotriton returns the archives in one of these directories, and the name of the directory of all.
func aotriton(dir Dir) (string, []File) {
	above, inner, ok := strings.Cut(filepath.ToSlash(dir.Name)+"/", "/"+aotritonImages+"/")
	if !ok {
		if above, inner, ok = strings.Cut(filepath.ToSlash(dir.Name)+"/", "!"+aotritonImages+"/"); !ok {
			return "", nil
		}
	}
	family, _, _ := strings.Cut(inner, "/")
	processor, ok := strings.CutPrefix(family, "amd-")
	if !ok || !strings.HasPrefix(processor, "gfx") {
		return "", nil
	}
	var data []File
	for _, name := range dir.Files {
		switch path.Ext(baseName(name)) {
		case ".aks2":
			data = append(data, File{name, processor, aks2})
		case ".zip":
			data = append(data, File{name, processor, zipArchive})
		}
	}
	return dir.Name[:len(above)+1+len(aotritonImages)], data
}

// aks2 checks the header of an archive: AKS2, and in 32 bits the size of its content, the number of
// kernels, and the size of their list. An XZ file follows.
func aks2(head []byte, size int64) Fault {
	const headerSize = 16
	switch {
	case len(head) < headerSize || string(head[:4]) != "AKS2":
		return Fault{Text: fmt.Sprintf("not an AKS2 archive: found %d bytes that begin with %.16q", size, head)}
	case head[8]|head[9]|head[10]|head[11] == 0:
		return Fault{"it has no kernels", true}
	case size == headerSize:
		return Fault{Text: "it is cut after its header"}
	}
	return Fault{}
}

func zipArchive(head []byte, size int64) Fault {
	if len(head) < 4 || string(head[:4]) != "PK\x03\x04" {
		return Fault{Text: fmt.Sprintf("not a zip file with kernels: found %d bytes that begin with %.16q", size, head)}
	}
	return Fault{}
}

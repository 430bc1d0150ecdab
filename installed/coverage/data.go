package coverage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/installed/rocmdata"
)

// data reports on the directories of data of libraries: those of Tensile (rocBLAS, hipBLASLt, hipSPARSELt),
// of MIOpen and of AOTriton. It returns the directories without the files of these.
func (c *checker) data(folders []files.Folder) (rest []files.Folder, list []FileReport, err error) {
	gone := make(map[string]bool)
	for _, t := range rocmdata.FindTensile(directories(folders)) {
		r, err := c.tensile(t)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, r)
		for name := range t.Files {
			gone[name] = true
		}
	}
	for _, d := range rocmdata.FindData(directories(folders)) {
		data := make([]datum, len(d.Files))
		for i := range d.Files {
			f := &d.Files[i]
			gone[f.Name] = true
			fault, err := c.checkData(f)
			if err != nil {
				return nil, nil, err
			}
			data[i] = datum{f, fault.Text}
		}
		list = append(list, askData(d.Name, data, c.gpus))
	}
	for _, folder := range folders {
		folder.Files = slices.DeleteFunc(slices.Clone(folder.Files), func(name string) bool { return gone[name] })
		rest = append(rest, folder)
	}
	return rest, list, nil
}

// directories returns the names of the files and links of directories.
func directories(folders []files.Folder) []rocmdata.Dir {
	dirs := make([]rocmdata.Dir, len(folders))
	for i, folder := range folders {
		dirs[i] = rocmdata.Dir{Name: folder.Name, Files: slices.Concat(folder.Files, folder.Links)}
	}
	return dirs
}

// tensile returns the code that GPUs find in a directory of Tensile.
func (c *checker) tensile(t *rocmdata.Tensile) (FileReport, error) {
	code := make(map[string][]Bundle) // by the processor in the name of a file
	for processor, names := range t.Code {
		for _, name := range names {
			found, err := c.code(name)
			if err != nil {
				return FileReport{}, err
			}
			code[processor] = append(code[processor], found.bundles...)
		}
	}
	return askTensile(t.Name, t.Catalogues, code, c.gpus), nil
}

// askTensile returns the code that GPUs find in a directory of Tensile with catalogues for some processors.
func askTensile(folder string, catalogues map[string]bool, code map[string][]Bundle, gpus []GPU) FileReport {
	return report(folder, gpus, func(m Mode) []answer {
		if catalogues[m.Processor] {
			for _, b := range code[m.Processor] {
				if a := b.ask(m); a.verdict != No {
					return []answer{{verdict: Yes, how: a.how, entry: a.entry}}
				}
			}
		}
		return []answer{{verdict: No}}
	})
}

// checkData checks the beginning of a file of data.
func (c *checker) checkData(f *rocmdata.File) (rocmdata.Fault, error) {
	head, size, err := c.readHead(f.Name)
	if err != nil {
		return rocmdata.Fault{}, err
	}
	return f.Check(head, size), nil
}

// datum is a file of a directory with data for GPUs that is no code object: a database of MIOpen or an
// archive of AOTriton.
type datum struct {
	*rocmdata.File
	fault string // why the file cannot be used, or ""
}

// fits reports whether the data is for a processor, and how many characters of its name are exact.
func (d *datum) fits(processor string) (exact int, ok bool) {
	if len(d.Processor) != len(processor) {
		return 0, false
	}
	for i := range len(processor) {
		switch {
		case d.Processor[i] == processor[i]:
			exact++
		case d.Processor[i] != 'x' && d.Processor[i] != 'X':
			return 0, false
		}
	}
	return exact, true
}

// askData returns the data that GPUs find in a directory: the files that are for their processor or, if
// it has no such files, for the smallest family that has it.
func askData(folder string, data []datum, gpus []GPU) FileReport {
	r := report(folder, gpus, func(m Mode) []answer { return []answer{findData(folder, data, m)} })
	r.note = r.reason()
	return r
}

func findData(folder string, data []datum, m Mode) answer {
	best := -1
	var found []*datum
	for i := range data {
		exact, ok := data[i].fits(m.Processor)
		if !ok || exact < best {
			continue
		}
		if exact > best {
			best, found = exact, nil
		}
		found = append(found, &data[i])
	}
	if len(found) == 0 {
		return answer{verdict: No, place: &Place{Reason: fmt.Sprintf("%s has no file for %s", folder, m.Processor)}}
	}
	place := &Place{Archive: found[0].Name, Target: found[0].Processor}
	var faults []string
	for _, d := range found {
		if d.fault != "" {
			faults = append(faults, d.Name+": "+d.fault)
		} else if len(faults) > 0 && strings.HasPrefix(faults[0], place.Archive+": ") {
			place.Archive = d.Name
		}
	}
	a := answer{verdict: Yes, how: Data, entry: found[0].Processor, place: place}
	if len(faults) > 0 {
		place.Reason = strings.Join(faults[:min(len(faults), 3)], "; ")
		if a.verdict = Partly; len(faults) == len(found) {
			a.verdict, place.Archive, place.Target = No, "", ""
		}
	}
	return a
}

package engine

import (
	"context"
	"slices"

	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/rocmdata"
)

// data reports on the directories of data of libraries: those of Tensile (rocBLAS, hipBLASLt, hipSPARSELt),
// of MIOpen and of AOTriton. It returns the directories without the files of these.
func (c *coverer) data(ctx context.Context, folders []files.Folder) (rest []files.Folder, list []coverage.FileReport, err error) {
	gone := make(map[string]bool)
	for _, t := range rocmdata.FindTensile(directories(folders)) {
		code := make(map[string][]coverage.Bundle)
		for processor, names := range t.Code {
			for _, name := range names {
				bundles, _, err := c.bundles(ctx, name)
				if err != nil {
					return nil, nil, err
				}
				code[processor] = append(code[processor], bundles...)
			}
		}
		list = append(list, coverage.AskTensile(t.Name, t.Catalogues, code, c.gpus))
		for name := range t.Files {
			gone[name] = true
		}
	}
	for _, d := range rocmdata.FindData(directories(folders)) {
		data := make([]coverage.Datum, len(d.Files))
		for i := range d.Files {
			f := &d.Files[i]
			gone[f.Name] = true
			fault, err := c.checkData(f)
			if err != nil {
				return nil, nil, err
			}
			data[i] = coverage.Datum{Name: f.Name, Processor: f.Processor, Fault: fault.Text}
		}
		list = append(list, coverage.AskData(d.Name, data, c.gpus))
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

// checkData checks the beginning of a file of data.
func (c *coverer) checkData(f *rocmdata.File) (rocmdata.Fault, error) {
	head, size, err := c.readHead(f.Name)
	if err != nil {
		return rocmdata.Fault{}, err
	}
	return f.Check(head, size), nil
}

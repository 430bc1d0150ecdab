package installation

import (
	"bytes"
	"context"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/installed/wheel"
)

// manifestName is the name of Tensile's lists of files. No library reads them at run time.
const manifestName = "TensileManifest.txt"

// lists writes the lists of files that name files that were removed or changed. They are copied by then.
func (p *treePrune) lists(ctx context.Context, report *PruneTreeReport) error {
	changed := make(map[string]bool)
	for i, f := range p.fates {
		if f.removed == nil && f.Format != "none" {
			changed[p.regular[i].Path] = true
		}
	}
	isRecord := func(name string) bool {
		return path.Base(name) == "RECORD" && strings.HasSuffix(path.Dir(name), ".dist-info")
	}
	// A RECORD has the sums of manifests.
	for _, kind := range []struct {
		is     func(name string) bool
		update func(name string, text []byte, changed map[string]bool) ([]byte, error)
	}{
		{func(name string) bool { return path.Base(name) == manifestName }, p.manifest},
		{isRecord, p.record},
	} {
		for _, e := range p.regular {
			if p.removed[e.Path] || !kind.is(e.Path) || e.Size > wheel.MaxText {
				continue
			}
			old, err := p.content(e.Path)
			if err != nil {
				return err
			}
			text, err := kind.update(e.Path, old, changed)
			if err != nil {
				return err
			}
			if bytes.Equal(text, old) {
				continue
			}
			if err := p.replace(ctx, e, text); err != nil {
				return err
			}
			changed[e.Path] = true
			report.SizeAfter += int64(len(text) - len(old))
			report.Lists = append(report.Lists, p.input+"/"+e.Path)
		}
	}
	return nil
}

// replace writes a file that is already copied again.
func (p *treePrune) replace(ctx context.Context, e files.TreeEntry, text []byte) error {
	return p.s.Files().Write(ctx, func(out *files.Outputs) error {
		_, err := out.WriteFile(p.name(e.Path), func(w *files.Output) error {
			w.KeepMode(e.Mode)
			_, err := w.Write(text)
			return err
		})
		return err
	})
}

// record returns the RECORD of an installed wheel without the files that were removed, and with the sums of
// those that were changed. One that cannot be read stays as it is.
func (p *treePrune) record(name string, text []byte, changed map[string]bool) ([]byte, error) {
	rows, err := wheel.ParseRecord(text)
	if err != nil {
		return text, nil
	}
	root := path.Dir(path.Dir(name))
	different := false
	var kept []wheel.Row
	for _, row := range rows {
		file := path.Join(root, row.Path)
		switch {
		case path.IsAbs(row.Path):
		case p.removed[file]:
			different = true
			continue
		case changed[file] && row.Hash != "":
			sum, size, err := p.sum(file)
			if err != nil {
				return nil, err
			}
			row.Hash, row.Size, different = wheel.Hash(sum), size, true
		}
		kept = append(kept, row)
	}
	if !different {
		return text, nil
	}
	return wheel.FormatRecord(kept), nil
}

// manifest returns a list of file names without those that were removed from the directory of the list or
// from those below it.
func (p *treePrune) manifest(name string, text []byte, _ map[string]bool) ([]byte, error) {
	gone := make(map[string]bool)
	dir := path.Dir(name) + "/"
	for file := range p.removed {
		if strings.HasPrefix(file, dir) {
			gone[path.Base(file)] = true
		}
	}
	var kept []byte
	for line := range bytes.Lines(text) {
		if !gone[path.Base(strings.TrimSpace(string(line)))] {
			kept = append(kept, line...)
		}
	}
	return kept, nil
}

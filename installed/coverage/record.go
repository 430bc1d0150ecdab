package coverage

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/installed/wheel"
)

// isRecord reports whether a file is the list of files of a wheel. It sets the fault of one that is
// too large to be read.
func (f *file) isRecord() bool { return f.isInfo("RECORD") }

// isInfo reports whether a file is one in the .dist-info directory of a wheel. It sets the fault of one
// that is too large to be read.
func (f *file) isInfo(name string) bool {
	if path.Base(f.path) != name || !strings.HasSuffix(path.Dir(f.path), ".dist-info") {
		return false
	}
	if f.size > wheel.MaxText {
		f.fault = fmt.Errorf("found %d bytes, expected at most %d", f.size, wheel.MaxText)
		return false
	}
	return true
}

// records compares the files of wheels with their lists.
func (p *packageCheck) records() error {
	for _, f := range p.files {
		if f.text == nil {
			continue
		}
		rows, err := wheel.ParseRecord(f.text)
		if err != nil {
			p.fault(f.name, FaultRecord, fixWheel, "%v", err)
			continue
		}
		listed := make(map[string]bool)
		root := path.Dir(path.Dir(f.path))
		for _, row := range rows {
			if listed[row.Path] {
				p.fault(f.name, FaultRecord, fixWheel, "%s is listed twice", row.Path)
			}
			listed[row.Path] = true
			if row.Hash == "" {
				continue
			}
			if err := p.record(f, root, row); err != nil {
				return err
			}
		}
		p.unlisted(f, listed)
	}
	return nil
}

// record compares a file with its entry in RECORD.
func (p *packageCheck) record(f *file, root string, row wheel.Row) error {
	if err := context.Cause(p.ctx); err != nil {
		return err
	}
	name := filepath.FromSlash(path.Join(root, row.Path))
	if path.IsAbs(row.Path) { // of an installation
		name = filepath.FromSlash(row.Path)
	}
	var sum [sha256.Size]byte
	var size int64
	if own := p.packed.named[f.in+"!"+row.Path]; own != nil {
		sum, size, name = own.sum, own.size, own.name
	} else if p.packed.named[f.name] != nil {
		p.fault(f.in+"!"+row.Path, FaultRecord, fixWheel, "RECORD lists the file, and the wheel does not have it")
		return nil
	} else if info, err := p.root.Stat(name); err != nil || !info.Mode().IsRegular() {
		p.fault(name, FaultRecord, "install the wheel again", "RECORD lists the file, and it does not exist")
		return nil
	} else if sum, size, err = p.sumFile(name); err != nil {
		return err
	}
	switch {
	case row.Size >= 0 && row.Size != size:
		p.fault(name, FaultRecord, "write RECORD after the last change to the file", "found %d bytes, RECORD says %d", size, row.Size)
	case strings.HasPrefix(row.Hash, "sha256=") && strings.TrimRight(row.Hash, "=") != wheel.Hash(sum):
		p.fault(name, FaultRecord, "write RECORD after the last change to the file", "found the hash %s, RECORD says %s", wheel.Hash(sum), row.Hash)
	case !strings.HasPrefix(row.Hash, "sha256="):
		p.warn(name, FaultRecord, "write RECORD with sha256", "RECORD has the hash %.100s, which was not checked", row.Hash)
	}
	return nil
}

// unlisted reports the files of a wheel that RECORD does not list. Signatures are not listed.
func (p *packageCheck) unlisted(record *file, listed map[string]bool) {
	if p.packed.named[record.name] == nil {
		return // installed, among the files of other wheels
	}
	for _, f := range p.files {
		member := strings.TrimPrefix(f.name, record.in+"!")
		if f.in != record.in || listed[member] || path.Dir(f.path) == path.Dir(record.path) && strings.HasPrefix(path.Base(f.path), "RECORD") {
			continue
		}
		p.fault(f.name, FaultRecord, "write RECORD after the last change to the wheel", "RECORD does not list the file")
	}
}

// sumFile returns the SHA-256 sum of a file.
func (p *packageCheck) sumFile(name string) (sum [sha256.Size]byte, size int64, err error) {
	input, err := p.root.OpenRegular(name)
	if err != nil {
		return sum, 0, err
	}
	defer input.Close()
	h := sha256.New()
	if size, err = io.Copy(h, io.NewSectionReader(input, 0, input.Size())); err != nil {
		return sum, size, err
	}
	h.Sum(sum[:0])
	return sum, size, nil
}

package coverage

import (
	"context"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/installed/wheel"
)

// isWheel reports whether a package is a wheel, by its name.
func isWheel(name string) bool { return path.Ext(name) == ".whl" }

// isHeaders reports whether a file of a wheel is WHEEL or METADATA. It sets the fault of one that is too
// large to be read.
func (f *file) isHeaders() bool {
	return isWheel(f.in) && path.Dir(path.Dir(f.path)) == "." && (f.isInfo("WHEEL") || f.isInfo("METADATA"))
}

// wheels reports members of wheels that keep an installer from unpacking them, and their files WHEEL and
// METADATA, as far as the other operations on wheels reject them.
func (p *packageCheck) wheels() error {
	clashes := make(map[string]bool)
	for _, f := range p.packed.files {
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		if !isWheel(f.in) {
			continue
		}
		if f.misnamed != nil {
			p.fault(f.in, FaultRecord, fixWheel, "%v", f.misnamed)
			continue
		}
		for i := len(f.in) + 1; i < len(f.name); i++ {
			if dir := f.name[:i]; f.name[i] == '/' && p.packed.named[dir] != nil && !clashes[dir] {
				clashes[dir] = true
				p.fault(dir, FaultRecord, fixWheel, "it is a file and also the directory of %.200q", f.name[len(f.in)+1:])
			}
		}
		if f.headers != nil {
			p.fault(f.name, FaultRecord, fixWheel, "%v", f.headers)
		}
	}
	return nil
}

// checkHeaders checks the text of the file WHEEL or METADATA of a wheel. The name and version in METADATA are
// compared with those in the name of the wheel, unless that is not the name of a wheel.
func checkHeaders(f *file, text []byte) error {
	h, err := wheel.ParseHeaders(text)
	if err != nil {
		return err
	}
	if path.Base(f.path) == "WHEEL" {
		return wheel.CheckInfo(h)
	}
	name, err := wheel.ParseName(path.Base(f.in[strings.LastIndexByte(f.in, '!')+1:]))
	if err != nil {
		name.Distribution, name.Version = h.Get("Name"), wheel.EscapeVersion(h.Get("Version"))
	}
	return wheel.CheckMetadata(h, path.Dir(f.path), name)
}

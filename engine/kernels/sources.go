package kernels

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
)

// Source is the number of bytes of code from a source file.
type Source struct {
	File  string       `json:"file"` // as in the debug information; "" for code without a source line
	Bytes int64        `json:"bytes"`
	Lines []SourceLine `json:"lines"` // by line; none for code without a source line
}

// SourceLine is the number of bytes of code from a line.
type SourceLine struct {
	Line  int64 `json:"line"`
	Bytes int64 `json:"bytes"`
}

// SourceReport are the source files of the code of an image, in the JSON form of all reports.
type SourceReport struct {
	File    string   `json:"file,omitempty"` // that contains the image
	Image   int      `json:"image"`          // Image.Index
	ID      string   `json:"id"`
	Arch    string   `json:"arch"`
	Code    int64    `json:"code"` // bytes of code with padding; 0 if Reason is set
	Reason  string   `json:"reason"`
	Sources []Source `json:"sources"`
}

// SourceReport returns the sources of an image that ReadSources read, or nil for an empty image.
func (img *Image) SourceReport() *SourceReport {
	if img.Sources == nil && img.NoSources == "" {
		return nil
	}
	r := &SourceReport{Image: img.Index, ID: img.ID, Arch: img.Arch, Reason: img.NoSources, Sources: img.Sources}
	if r.Sources == nil {
		r.Sources = []Source{}
	}
	for _, s := range r.Sources {
		r.Code += s.Bytes
	}
	return r
}

// ReadSources sets CodeHash, and Sources of a described image and of its kernels from the line tables of a
// code object. If they cannot be read, NoSources is the reason. data is that of Describe.
func (img *Image) ReadSources(data []byte) {
	if img.Format != CodeObject {
		img.NoSources = "only AMD code objects have line tables that offload reads"
		return
	}
	o, err := codeobject.Parse(data)
	if err != nil {
		img.NoSources = err.Error()
		return
	}
	img.CodeHash = o.CodeHash()
	s, err := o.Sources()
	if err != nil {
		img.NoSources = err.Error()
		return
	}
	img.Sources = bySource(s.Code)
	byName := make(map[string][]codeobject.SourceLine, len(o.Kernels))
	for i := range o.Kernels {
		byName[string(o.Kernels[i].Name)] = s.Kernels[i]
	}
	for i := range img.Kernels {
		img.Kernels[i].Sources = bySource(byName[img.Kernels[i].Name])
	}
}

// bySource groups lines, which are ordered by file and line. Files with the most bytes are first.
func bySource(lines []codeobject.SourceLine) []Source {
	list := []Source{}
	for _, l := range lines {
		if n := len(list); n == 0 || list[n-1].File != l.File {
			list = append(list, Source{File: l.File, Lines: []SourceLine{}})
		}
		s := &list[len(list)-1]
		s.Bytes += int64(l.Bytes)
		if l.Line > 0 {
			s.Lines = append(s.Lines, SourceLine{int64(l.Line), int64(l.Bytes)})
		}
	}
	slices.SortStableFunc(list, func(a, b Source) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

// appendSources appends the JSON form of sources.
func appendSources(b []byte, sources []Source) []byte {
	b = append(b, '[')
	for i, s := range sources {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(append(b, `{"file":`...), s.File)
		b = strconv.AppendInt(append(b, `,"bytes":`...), s.Bytes, 10)
		b = append(b, `,"lines":[`...)
		for k, l := range s.Lines {
			if k > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, `{"line":`...), l.Line, 10)
			b = append(strconv.AppendInt(append(b, `,"bytes":`...), l.Bytes, 10), '}')
		}
		b = append(b, "]}"...)
	}
	return append(b, ']')
}

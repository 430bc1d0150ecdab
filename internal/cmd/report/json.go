package report

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// WriteJSON writes the report as JSON: {"files": [{"file", "size", "images",
// "kernels", "sources"}]}, with the images of offload inspect, the kernels of offload inspect
// --kernels and the sources of offload inspect --sources; "profile" and "redundant" are in package report, and "diff" is what offload diff prints. Sizes are in bytes.
func (r *Report) WriteJSON(w io.Writer) error {
	buffer := bufio.NewWriterSize(w, 64<<10)
	j := jsonLines{buffer: buffer, out: printable.JSON(buffer)}
	j.text(`{"files": [`)
	for i, f := range r.Files {
		j.separate(i, "\n ")
		j.text(`{"file": `)
		j.value(f.Name)
		j.text(`, "size": `)
		j.value(f.Size)
		j.text(`, "images": [`)
		for k, e := range f.Found {
			j.separate(k, "\n  ")
			j.value(listing.NewImage(e))
		}
		j.text(`], "kernels": [`)
		n := 0
		for _, img := range f.Images {
			for k := range img.Kernels {
				j.separate(n, "\n  ")
				j.value(&img.Kernels[k])
				n++
			}
		}
		j.text(`], "sources": [`)
		n = 0
		for k := range f.Images {
			if s := f.Images[k].SourceReport(); s != nil {
				j.separate(n, "\n  ")
				j.value(s)
				n++
			}
		}
		j.text("]}")
	}
	j.text("]")
	if list := r.instrumented(); len(list) > 0 {
		j.text(",\n\"profile\": ")
		j.value(list)
	}
	if r.Redundant != nil {
		j.text(",\n\"redundant\": ")
		j.value(r.Redundant)
	}
	if r.Diff != nil {
		j.text(",\n\"diff\": ")
		j.value(r.Diff)
	}
	j.text("}\n")
	if j.err != nil {
		return j.err
	}
	return buffer.Flush()
}

// jsonLines writes JSON incrementally.
type jsonLines struct {
	buffer *bufio.Writer
	out    io.Writer // escapes control characters
	err    error
}

func (j *jsonLines) text(s string) { j.buffer.WriteString(s) } // its error is that of Flush

// separate begins element i of an array.
func (j *jsonLines) separate(i int, space string) {
	if i > 0 {
		j.text(",")
	}
	j.text(space)
}

func (j *jsonLines) value(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.out.Write(line)
	}
	if j.err == nil {
		j.err = err
	}
}

package object

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// FuzzParse reads whatever it is given.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		IsObject(data)
		if o, err := Parse(data); err == nil {
			for i := range o.Sections {
				o.Data(i)
			}
		}
		ArchiveSymbols(data)
	})
}

// FuzzRewrite rewrites any input. The output must be an object with the new section that can be
// rewritten again.
func FuzzRewrite(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		out := &limited{left: 1 << 22}
		err := Rewrite(content.Memory(data), Edits{
			Remove:       func(name []byte) bool { return len(name) == 5 },
			RenameSymbol: map[string]string{"use": "used"},
			Add:          []NewSection{BundleSection(bundleMagic, content.Memory([]byte("payload")))},
		}, out)
		if err != nil {
			return
		}
		o, err := Parse(out.Bytes())
		if err != nil {
			t.Fatalf("the output does not parse: %v", err)
		}
		found := false
		for i := range o.Sections {
			got, err := o.Data(i)
			found = found || err == nil && string(o.Sections[i].Name) == bundleMagic && string(got) == "payload"
		}
		if !found {
			t.Fatal("the new section is not in the output")
		}
		if err := Rewrite(content.Memory(out.Bytes()), Edits{Remove: isBundle}, &limited{left: 1 << 23}); err != nil && err != errFull {
			t.Fatalf("the output cannot be rewritten: %v", err)
		}
	})
}

// limited is a Buffer with a maximum size.
type limited struct {
	content.Buffer
	left int64
}

func (l *limited) take(n int64) error {
	if l.left -= n; l.left < 0 {
		return errFull
	}
	return nil
}

func (l *limited) Append(c content.Content) error {
	if err := l.take(c.Len()); err != nil {
		return err
	}
	return l.Buffer.Append(c)
}

func (l *limited) Zeros(n int64) error {
	if err := l.take(n); err != nil {
		return err
	}
	return l.Buffer.Zeros(n)
}

func seed(f *testing.F) {
	for _, name := range []string{"x86_64.o", "mips.o", "x86_64-coff.o"} {
		f.Add(fixture(f, name))
	}
	for _, k := range kinds {
		f.Add(sample(k.is64, k.order, elf.MachineX8664))
	}
	f.Add(build(f, elf.MachineAArch64))
	f.Add(coffSample(false))
	f.Add(coffSample(true))
	f.Add(peSample())
}

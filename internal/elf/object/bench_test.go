package object

import (
	"fmt"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// nowhere is a Sink that forgets.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error)    { return len(p), nil }
func (nowhere) Append(c content.Content) error { return nil }
func (nowhere) Zeros(n int64) error            { return nil }

// large is an object with many sections and symbols.
func large(b *testing.B) []byte {
	o := NewBuilder(elf.MachineX8664)
	for i := range 20000 {
		s := o.Section(BuilderSection{Name: fmt.Sprintf(".text._ZN5large6sample%dEv", i), Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Content: content.Memory(make([]byte, 64))})
		o.Symbol(BuilderSymbol{Name: fmt.Sprintf("_ZN5large6sample%dEv", i), Section: s, Bind: elf.BindGlobal, Type: elf.TypeFunc})
	}
	var out content.Buffer
	if err := o.Write(&out); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

func BenchmarkAddSections(b *testing.B) {
	in := large(b)
	add := []NewSection{BundleSection("__CLANG_OFFLOAD_BUNDLE__x", content.Memory(make([]byte, 1<<20)))}
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Rewrite(content.Memory(in), Edits{Add: add}, nowhere{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkArchiveSymbols(b *testing.B) {
	in := large(b)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ArchiveSymbols(in); err != nil {
			b.Fatal(err)
		}
	}
}

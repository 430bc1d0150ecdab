package bitcode

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// The files are from LLVM's tools, the names from llvm-nm --print-armap on
// archives that llvm-ar made of them.
func TestSymbols(t *testing.T) {
	elf := []string{"f", "g", "al", "fal", "wal", "ifn"}
	macho := []string{"_res", "_f", "___unnamed_1", "_lf", "_sc", "___unnamed_2", "_g", "_app", "noprefix", "_?q",
		"_lo", "_wo", "_g2", "_al", "___unnamed_3", "_ifn"}
	for name, want := range map[string][]string{
		"alias-elf.bc":    elf,
		"macho-llvm14.bc": macho,
		"modules.bc":      append(elf, macho...), // both, one after another
		"asm-elf.bc":      {"f", "g", "asm2", "asm_weak", "asm_defined"},
		"stdcall-coff.bc": {"_sc@16", "@fc@8", "vc@@4", "_ex", "_callim", "_cd", "_ret@20", "_wk", "_sa"},
		"embedded.bc":     {"fn", "f", "g", "h", "i", "j", "k", "l"},
	} {
		t.Run(name, func(t *testing.T) {
			data := testdata(t, name)
			got, err := Symbols(data)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if binary.LittleEndian.Uint32(data) == wrapperMagic {
				return
			}
			got, err = Symbols(wrapped(data, 3))
			if err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("with a wrapper header: %q, %v", got, err)
			}
		})
	}
}

// wrapped adds a wrapper header before data and padding words after it.
func wrapped(data []byte, padding int) []byte {
	var w []byte
	for _, v := range []int{wrapperMagic, 0, wrapperSize, len(data), 7} {
		w = binary.LittleEndian.AppendUint32(w, uint32(v))
	}
	return append(append(w, data...), make([]byte, 4*padding)...)
}

// Modules without a string table keep names in a block, and have no symbol table for linkers:
// LLVM 4 and older.
func TestSymbolsOldModule(t *testing.T) {
	w := newStream()
	w.enter(moduleBlock, 3)
	w.record(moduleVersion, 1)
	w.record(moduleDataLayout, chars("e-m:x-p:32:32")...)
	w.record(moduleSectionName, chars("llvm.metadata")...)
	w.record(moduleGlobalVar, 0, 0, 5, 0, 0, 0) // 0
	w.record(moduleGlobalVar, 0, 0, 5, 0, 0, 1) // 1, in llvm.metadata
	w.record(moduleGlobalVar, 0, 0, 0, 0, 0, 0) // 2, declared
	w.record(moduleFunction, 0, 0, 0, 0)        // 3
	w.record(moduleFunction, 0, 0, 1, 0)        // 4, declared
	w.record(moduleFunction, 0, 0, 0, 3)        // 5, internal
	w.record(moduleFunction, 0, 0, 0, 12)       // 6, available externally
	w.record(moduleAliasOld, 0, 0, 1)           // 7, weak
	w.record(moduleFunction, 0, 0, 0, 0)        // 8
	w.record(moduleFunction, 0, 0, 0, 0)        // 9, llvm.
	w.enter(valueSymtabBlock, 4)
	for i, name := range []string{"var", "meta", "decl", "func", "fdecl", "internal", "avail", "alias", "\x01asis", "llvm.x"} {
		if i == 3 {
			w.record(3, chars(name, uint64(i), 77)...)
		} else {
			w.record(1, chars(name, uint64(i))...)
		}
	}
	w.end()
	w.end()
	got, err := Symbols(w.data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"_func", "asis", "_var", "_alias"}, got); d != "" {
		t.Error(d)
	}
}

func TestMangle(t *testing.T) {
	for _, c := range []struct {
		layout, name, want string
	}{
		{"e-m:e-i64:64", "f", "f"},
		{"", "f", "f"},
		{"e-m:o", "f", "_f"},
		{"e-m:x-p:32:32", "f", "_f"},
		{"e-m:w", "f", "f"},
		{"e-m:w", "?f@@YAXXZ", "?f@@YAXXZ"},
		{"e-m:x", "?f@@YAXXZ", "?f@@YAXXZ"},
		{"e-m:o", "?f", "_?f"},
		{"e-m:o", "\x01f", "f"},
		{"e-m:o", "", "___unnamed_4"},
	} {
		if got := mangle([]byte(c.name), mangling([]byte(c.layout)), 4); got != c.want {
			t.Errorf("mangle %q in %q: got %q, want %q", c.name, c.layout, got, c.want)
		}
	}
}

func TestEmbeddedObjects(t *testing.T) {
	got, err := EmbeddedObjects(testdata(t, "embedded.bc"))
	if err != nil {
		t.Fatal(err)
	}
	// Every way to write a constant; one listed three times.
	want := []string{"abc", "abc\x00", "a\xffc\x00", "\x01\x02\x03\x04", "a;c\x00", "\x01\xff\x80\x00\x00", "abc", "abc"}
	var all []string
	for _, b := range got {
		all = append(all, string(b))
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"alias-elf.bc", "macho-llvm14.bc", "modules.bc"} {
		if got, err := EmbeddedObjects(testdata(t, name)); err != nil || len(got) != 0 {
			t.Errorf("%s: got %d objects, error %v", name, len(got), err)
		}
	}
}

// LLVM's tool rejects files of several modules; here each has its images.
func TestEmbeddedObjectsOfModules(t *testing.T) {
	one := testdata(t, "embedded.bc")
	want, err := EmbeddedObjects(one)
	if err != nil {
		t.Fatal(err)
	}
	got, err := EmbeddedObjects(append(bytes.Clone(one), one[4:]...)) // one signature
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(append(want, want...), got); d != "" {
		t.Error(d)
	}
}

// Any content is read, at every bit position in the stream.
func TestEmbeddedObjectsContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		image := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "image")
		image[0] |= 1
		shift := rapid.IntRange(0, 20).Draw(t, "records before")
		abbreviated := rapid.Bool().Draw(t, "abbreviated")
		data := embeddings(func(w *streamWriter) {
			for range shift {
				w.record(cstSetType, 1)
			}
			if abbreviated {
				w.define(field{literal, cstString}, field{enc: array}, field{fixed, 8})
				w.bytes(abbrevFirst, image)
			} else {
				w.record(cstString, chars(string(image))...)
			}
		})
		got, err := EmbeddedObjects(data)
		if err != nil || len(got) != 1 || !bytes.Equal(got[0], image) {
			t.Fatalf("got %x, %v, want %x", got, err, image)
		}
	})
}

func TestEmbeddedObjectsAggregate(t *testing.T) {
	data := embeddings(func(w *streamWriter) {
		w.record(cstAggregate, 2, 3, 4, 2) // value 1
		w.record(cstSetType, 0)
		w.record(cstInteger, 65<<1)  // value 2
		w.record(cstInteger, 1<<1|1) // value 3: -1
		w.record(cstNull)            // value 4
	})
	got, err := EmbeddedObjects(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]byte{{65, 255, 0, 65}}, got); d != "" {
		t.Error(d)
	}
}

func TestErrors(t *testing.T) {
	good := testdata(t, "alias-elf.bc")
	module := func(f func(w *streamWriter)) []byte {
		w := newStream()
		w.enter(moduleBlock, 3)
		f(w)
		w.end()
		return w.data
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "no bitcode signature"},
		{"other", []byte("\x7fELF\x02\x01\x01\x00"), "no bitcode signature"},
		{"odd size", good[:len(good)-1], "not a multiple of 4"},
		{"cut", good[:len(good)/2&^3], "passes the end"},
		{"wrapper cut", wrapped(good, 0)[:16], "wrapper header needs 20 bytes, found 16"},
		{"wrapper size", append(wrapped(good, 0)[:12], append([]byte{255, 255, 255, 255}, wrapped(good, 0)[16:]...)...), "passes the end of the file"},
		{"wrapper empty", wrapped(make([]byte, 8), 0), "no bitcode signature after the wrapper"},
		{"operands", module(func(w *streamWriter) { w.fixed(3, 3); w.vbr(1, 6); w.vbr(1<<40, 6) }), "record of 1099511627776 operands passes the end"},
		{"endless number", module(func(w *streamWriter) {
			w.fixed(3, 3)
			for range 20 {
				w.fixed(63, 6)
			}
		}), "number of more than 64 bits"},
		{"abbreviation", module(func(w *streamWriter) { w.fixed(5, 3) }), "unknown abbreviation 5"},
		{"array of arrays", module(func(w *streamWriter) { w.define(field{literal, 1}, field{enc: array}, field{enc: array}) }), "wrong place"},
		{"zero width array", module(func(w *streamWriter) { w.define(field{literal, 1}, field{enc: array}, field{fixed, 0}) }), "wrong place"},
		{"wide field", module(func(w *streamWriter) { w.define(field{literal, 1}, field{fixed, 64}) }), "field of 64 bits"},
		{"short record", module(func(w *streamWriter) { w.record(moduleFunction, 1, 2) }), "has 2 operands, expected at least 4"},
		{"name", module(func(w *streamWriter) { w.record(moduleVersion, 2); w.record(moduleFunction, 1, 2, 3, 4, 5, 6) }), "offset 0x1 + size 0x2 passes the end of the string table (0 bytes)"},
		{"names that overlap", func() []byte {
			w := newStream()
			w.enter(moduleBlock, 3)
			w.record(moduleVersion, 2)
			for range 3 {
				w.record(moduleFunction, 0, 3, 0, 0, 0, 0)
			}
			w.end()
			w.enter(strtabBlock, 3)
			w.define(field{literal, 1}, field{enc: blob})
			w.blob(abbrevFirst, []byte("function"))
			w.end()
			return w.data
		}(), "names of global values overlap"},
		{"too many globals", module(func(w *streamWriter) {
			w.define(field{literal, moduleFunction}, field{literal, 0}, field{literal, 0}, field{literal, 0}, field{literal, 0})
			for range 5000 {
				w.fixed(abbrevFirst, 3)
			}
		}), "global values in"},
		{"section", module(func(w *streamWriter) { w.record(moduleGlobalVar, 1, 2, 3, 4, 5, 6) }), "section 6 of 0"},
		{"block width", module(func(w *streamWriter) { w.enter(14, 0); w.end() }), "IDs of 0 bits"},
		{"endless numbers in a text", module(func(w *streamWriter) {
			w.define(field{literal, moduleDataLayout}, field{enc: array}, field{vbr, 6})
			w.fixed(abbrevFirst, 3)
			w.vbr(3, 6)
			for range 60 {
				w.fixed(63, 6)
			}
		}), "number of more than 64 bits"},
		{"blob size that wraps around", module(func(w *streamWriter) {
			w.define(field{literal, moduleDataLayout}, field{enc: blob})
			w.fixed(abbrevFirst, 3)
			w.vbr(1<<64-1, 6)
		}), "blob of 0xffffffffffffffff bytes passes the end"},
		{"epoch", func() []byte {
			w := newStream()
			w.enter(identificationBlock, 3)
			w.record(2, 1)
			w.end()
			return w.data
		}(), "epoch 1"},
		{"identification alone", func() []byte {
			w := newStream()
			w.enter(identificationBlock, 3)
			w.record(2, 0)
			w.end()
			return w.data
		}(), "no module after the identification block"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Symbols(c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

// Data with only a signature has no symbols and no module.
func TestNoModule(t *testing.T) {
	for _, data := range []string{"BC\xc0\xde", "BC\xc0\xde\x00\x00\x00\x00", "BC\xc0\xde\x00\x00\x00\x00\x00\x00\x00\x00"} {
		if names, err := Symbols([]byte(data)); err != nil || len(names) != 0 {
			t.Errorf("%q: symbols %q, %v", data, names, err)
		}
		if _, err := EmbeddedObjects([]byte(data)); err == nil || !strings.Contains(err.Error(), "no module") {
			t.Errorf("%q: got %v, want an error", data, err)
		}
	}
}

// No change of a byte may crash a reader or make it use much memory.
func TestDamaged(t *testing.T) {
	for _, name := range []string{"embedded.bc", "modules.bc", "asm-elf.bc"} {
		good := testdata(t, name)
		for i := 0; i < len(good); i += 3 {
			for _, x := range []byte{0x04, 0xff} {
				bad := bytes.Clone(good)
				bad[i] ^= x
				Symbols(bad)
				EmbeddedObjects(bad)
			}
			if i%12 == 0 {
				Symbols(good[:i])
				EmbeddedObjects(good[:i])
			}
		}
	}
}

func FuzzBitcode(f *testing.F) {
	for _, name := range []string{"alias-elf.bc", "asm-elf.bc", "embedded.bc", "macho-llvm14.bc"} {
		f.Add(testdata(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		Symbols(data)
		DependentLibraries(data)
		Assembly(data, func([]byte) {})
		objects, err := EmbeddedObjects(data)
		if err != nil && objects != nil {
			t.Error("objects and an error")
		}
	})
}

func BenchmarkEmbeddedObjects(b *testing.B) {
	image := make([]byte, 50<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range image {
		image[i] = byte(r.Uint32()) | 1
	}
	data := embeddings(func(w *streamWriter) {
		w.define(field{literal, cstString}, field{enc: array}, field{fixed, 8})
		w.bytes(abbrevFirst, image)
	})
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EmbeddedObjects(data); err != nil {
			b.Fatal(err)
		}
	}
}

// A module of 50 MB with much metadata and many functions, and nothing embedded.
func largeModule() []byte {
	w := newStream()
	w.enter(moduleBlock, 3)
	w.record(moduleVersion, 2)
	for i := range uint64(100_000) {
		w.record(moduleFunction, 8*i, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	w.enter(metadataBlock, 4)
	for i := range uint64(1_000_000) {
		w.record(metaNode, i, i+1, i+2, i+3)
	}
	w.end()
	for range 1000 {
		w.enter(functionBlock, 4)
		w.data = append(w.data, make([]byte, 32<<10)...)
		w.end()
	}
	w.end()
	w.enter(strtabBlock, 3)
	w.define(field{literal, 1}, field{enc: blob})
	w.blob(abbrevFirst, bytes.Repeat([]byte("function"), 100_000))
	w.end()
	return w.data
}

func BenchmarkLargeModule(b *testing.B) {
	data := largeModule()
	b.Run("Symbols", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if s, err := Symbols(data); err != nil || len(s) != 100_000 {
				b.Fatal(len(s), err)
			}
		}
	})
	b.Run("EmbeddedObjects", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EmbeddedObjects(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

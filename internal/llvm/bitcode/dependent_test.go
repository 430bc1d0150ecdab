package bitcode

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDependentLibraries reads modules whose strings are in a table, and single, as before LLVM 3.9.
func TestDependentLibraries(t *testing.T) {
	module := func(strings func(w *streamWriter), name string) []byte {
		w := newStream()
		w.enter(moduleBlock, 3)
		w.enter(metadataBlock, 4)
		w.define(field{literal, metaStrings}, field{vbr, 6}, field{vbr, 6}, field{enc: blob})
		strings(w)                // 0 foo, 1 other, 2 libbar.a
		w.record(metaNode, 1)     // 3
		w.record(metaNode, 2)     // 4
		w.record(metaNode, 3)     // 5
		w.record(metaNode)        // 6
		w.record(metaNode, 0)     // 7
		w.record(metaNode, 1, 99) // 8
		w.record(metaName, chars("others")...)
		w.record(metaNamedNode, 4)
		w.record(metaName, chars(name)...)
		w.record(metaNamedNode, 3, 5, 6, 7, 99)
		w.end()
		w.end()
		return w.data
	}
	table := func(w *streamWriter) {
		data, off := stringsBlob("foo", "other", "libbar.a")
		w.blob(abbrevFirst, data, 3, off)
	}
	single := func(w *streamWriter) {
		for _, s := range []string{"foo", "other", "libbar.a"} {
			w.record(metaStringOld, chars(s)...)
		}
	}
	for name, test := range map[string]struct {
		data []byte
		want []string
	}{
		"table":      {module(table, dependentNode), []string{"foo", "libbar.a"}},
		"single":     {module(single, dependentNode), []string{"foo", "libbar.a"}},
		"two":        {append(module(table, dependentNode), module(table, dependentNode)[4:]...), []string{"foo", "foo", "libbar.a", "libbar.a"}},
		"other name": {module(table, dependentNode+"2"), nil},
		"clang's":    {testdata(t, "alias-elf.bc"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DependentLibraries(test.data)
			slices.Sort(got)
			if err != nil || !cmp.Equal(got, test.want) {
				t.Errorf("got %q and error %v, want %q", got, err, test.want)
			}
		})
	}
	if _, err := DependentLibraries(module(table, dependentNode)[:100]); err == nil {
		t.Error("a file that is cut short: got no error, want one")
	}
}

// TestAssembly finds the text of a module, and of statements in and outside of functions.
func TestAssembly(t *testing.T) {
	w := newStream()
	w.enter(moduleBlock, 3)
	w.record(moduleAsm, chars(".incbin a")...)
	w.enter(constantsBlock, 4)
	w.record(30, append([]uint64{0, 1, 9}, chars(".incbin b")...)...)
	w.record(cstString, chars("text")...)
	w.end()
	w.enter(functionBlock, 4)
	w.record(1, 1)
	w.enter(constantsBlock, 4)
	w.record(23, append([]uint64{1, 9}, chars(".incbin c")...)...)
	w.end()
	w.enter(metadataBlock, 4)
	w.end()
	w.record(2, 1)
	w.end()
	w.end()
	var got []byte
	if err := Assembly(w.data, func(text []byte) { got = append(append(got, text...), '\n') }); err != nil {
		t.Fatal(err)
	}
	if want := ".incbin a\n\x00\x01\t.incbin b\n\x01\t.incbin c\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	found := false
	if err := Assembly(testdata(t, "asm-elf.bc"), func(text []byte) { found = found || bytes.Contains(text, []byte("asm_defined")) }); err != nil || !found {
		t.Errorf("clang's file: got text %t and error %v, want the text", found, err)
	}
}

package object

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestStringTable(t *testing.T) {
	table := NewStringTable()
	words := []string{".rela.text", ".text", "", "main", ".symtab", "tab", "main", "remain"}
	refs := make([]int, len(words))
	for i, w := range words {
		refs[i] = table.Add([]byte(w))
	}
	if err := table.Finish(); err != nil {
		t.Fatal(err)
	}
	// .text and main lie at the ends of longer names.
	if got, want := string(table.Bytes()), "\x00.rela.text\x00remain\x00.symtab\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i, w := range words {
		if got := table.Bytes()[table.Offset(refs[i]):]; !bytes.HasPrefix(got, append([]byte(w), 0)) {
			t.Errorf("%q is at %q", w, got)
		}
	}
}

func TestCOFFStringTable(t *testing.T) {
	table := newCOFFStringTable()
	symbol := table.Add([]byte("zzzzzzzzz_symbol"))
	section := table.addFirst([]byte(".long_section"))
	same := table.Add([]byte(".long_section"))
	if err := table.Finish(); err != nil {
		t.Fatal(err)
	}
	if got, want := string(table.Bytes()), "\x23\x00\x00\x00.long_section\x00zzzzzzzzz_symbol\x00"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if table.Offset(section) != 4 || table.Offset(same) != 4 || table.Offset(symbol) != 18 {
		t.Errorf("got %d, %d, %d", table.Offset(section), table.Offset(same), table.Offset(symbol))
	}
}

func TestStringTableProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[ab]{0,12}`)).Draw(rt, "words")
		table, again := NewStringTable(), NewStringTable()
		for i := range words {
			table.Add([]byte(words[i]))
			again.Add([]byte(words[len(words)-1-i]))
		}
		if table.Finish() != nil || again.Finish() != nil {
			rt.Fatal("does not finish")
		}
		for i, w := range words {
			if !bytes.HasPrefix(table.Bytes()[table.Offset(i):], append([]byte(w), 0)) {
				rt.Fatalf("%q is not at its offset", w)
			}
		}
		if !bytes.Equal(table.Bytes(), again.Bytes()) {
			rt.Fatal("the table depends on the order of its strings")
		}
	})
}

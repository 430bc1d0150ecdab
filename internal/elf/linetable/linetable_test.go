package linetable_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/elf/linetable"
)

var le = binary.LittleEndian

// program is a line program: two lines of file 1, one of file 2, code without a line, and a
// second sequence for code that the linker removed.
var program = "\x00\x09\x02" + string(le.AppendUint64(nil, 0x1000)) + // set_address
	"\x03\x04\x01" + // advance_line 4: line 5, copy
	"\x02\x08\x04\x02\x01" + // advance_pc 8, set_file 2, copy
	"\x22" + // special: 1 address, line + 2
	"\x02\x08\x03\x79\x01" + // advance_pc 8, advance_line -7: line 0, copy
	"\x08" + "\x09\x02\x00" + "\x05\x63\x0a" + // const_add_pc, fixed_advance_pc 2, set_column, set_prologue_end
	"\x00\x01\x01" + // end_sequence
	"\x00\x09\x02" + string(make([]byte, 8)) + "\x01\x02\x10\x00\x01\x01" + // at 0: removed
	"\x00\x02\x80\x01" // an unknown extended opcode

// unit returns a line table. lists are the directories and files as the version stores them.
func unit(version uint16, lists string) []byte {
	header := "\x01" // minimum length
	if version >= 4 {
		header += "\x01"
	}
	header += "\x01\xfb\x0e\x0d" + "\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01" + lists
	b := le.AppendUint16(nil, version)
	if version >= 5 {
		b = append(b, 8, 0)
	}
	b = le.AppendUint32(b, uint32(len(header)))
	b = append(b, header+program...)
	return append(le.AppendUint32(nil, uint32(len(b))), b...)
}

// The lists of versions 4 and 5, and .debug_info with .debug_abbrev of version 4.
const (
	lists4 = "include\x00\x00" + "a.hip\x00\x00\x00\x00" + "b.h\x00\x01\x00\x00" + "\x00"
	lists5 = "\x01\x01\x1f\x02" + "\x00\x00\x00\x00\x05\x00\x00\x00" + // line_strp
		"\x03\x01\x08\x02\x0b\x05\x1e" + "\x03" + "a.hip\x00\x00" + "0123456789abcdef" + "a.hip\x00\x00" + "0123456789abcdef" + "b.h\x00\x01" + "0123456789abcdef"
	lineStr = "/src\x00include\x00"
	info4   = "\x11\x00\x00\x00" + "\x04\x00" + "\x00\x00\x00\x00" + "\x08" + "\x01" + "\x00\x00\x00\x00" + "/src\x00"
	abbrev4 = "\x01\x11\x01" + "\x10\x17" + "\x1b\x08" + "\x00\x00" + "\x00"
)

// parse reads sections; code has the addresses 0x1000 to 0x2000.
func parse(line []byte, lineStr, info, abbrev string) (*linetable.Table, error) {
	sections := map[string][]byte{".debug_line": line, ".debug_line_str": []byte(lineStr), ".debug_info": []byte(info), ".debug_abbrev": []byte(abbrev)}
	return linetable.Parse(func(name string) ([]byte, error) { return sections[name], nil }, func(addr uint64) bool { return addr >= 0x1000 && addr < 0x2000 })
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, info, dir string
		line            []byte
	}{
		{"version 2", "", "", unit(2, lists4)},
		{"version 4", info4, "/src/", unit(4, lists4)},
		{"version 4 with damaged information", info4[:12], "", unit(4, lists4)},
		{"version 5", "", "/src/", unit(5, lists5)},
	} {
		got, err := parse(test.line, lineStr, test.info, abbrev4)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want := &linetable.Table{
			Files: []string{"", test.dir + "a.hip", test.dir + "include/b.h"},
			Spans: []linetable.Span{{0x1000, 0x1008, 1, 5}, {0x1008, 0x1009, 2, 5}, {0x1009, 0x1011, 2, 7}, {0x1011, 0x1011 + 17 + 2, 0, 0}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		// A table twice has each range once.
		if again, err := parse(append(test.line, test.line...), lineStr, test.info, abbrev4); err != nil || !cmp.Equal(again.Spans, want.Spans) {
			t.Errorf("%s twice: %+v, %v", test.name, again, err)
		}
		for n := 1; n < len(test.line); n++ {
			if _, err := parse(test.line[:n], lineStr, test.info, abbrev4); err == nil {
				t.Errorf("%s: no error for %d of %d bytes", test.name, n, len(test.line))
			}
		}
	}
}

func TestErrors(t *testing.T) {
	change := func(at int, to byte) []byte {
		line := unit(4, lists4)
		line[at] = to
		return line
	}
	for want, line := range map[string][]byte{
		"found version 6 of DWARF, expected 2 to 5":   change(4, 6),
		"pass the end of the section":                 change(1, 1),
		"its header passes its end":                   change(7, 1),
		"found 0 lines for special opcodes":           change(14, 0),
		"lists of directories and files pass the end": change(6, 20),
	} {
		if _, err := parse(line, "", "", ""); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "line table at byte 0x0 of .debug_line: ") {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	// 100 files share a long directory.
	var program strings.Builder
	for i := range 100 {
		program.WriteString("\x04" + string(rune(i)) + "\x01\x02\x04")
	}
	path := "\x01\x01\x1f\x01\x00\x00\x00\x00" + "\x02\x01\x08\x02\x0b" + "\x64" + strings.Repeat("x\x00\x00", 100)
	shared := unit(5, path)
	shared = append(shared, "\x00\x09\x02"+string(le.AppendUint64(nil, 0x1000))+program.String()...)
	le.PutUint32(shared, uint32(len(shared)-4))
	if _, err := parse(shared, strings.Repeat("d", 1<<16)+"\x00", "", ""); err == nil || !strings.Contains(err.Error(), "the names of its files overlap") {
		t.Errorf("overlapping names: %v", err)
	}
}

// TestLongText reads many directories that refer to a section without a 0.
func TestLongText(t *testing.T) {
	lists := append([]byte("\x01\x01\x1f\x80\x80\x10"), make([]byte, 4<<18)...)
	line := unit(5, string(lists)+"\x01\x01\x08\x01a\x00")
	start := time.Now()
	if _, err := parse(line, strings.Repeat("d", 8<<20), "", ""); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("reading %d bytes took %s, want less than 10 s", len(line), took)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(unit(2, lists4), "", "", "")
	f.Add(unit(4, lists4), "", info4, abbrev4)
	f.Add(unit(5, lists5), lineStr, "", "")
	f.Fuzz(func(t *testing.T, line []byte, lineStr, info, abbrev string) {
		table, err := parse(line, lineStr, info, abbrev)
		if err != nil {
			return
		}
		end := uint64(0)
		for _, s := range table.Spans {
			if s.Start < end || s.End <= s.Start || int(s.File) >= len(table.Files) || (s.File == 0) != (s.Line == 0) || s.Line > math.MaxInt32*2 {
				t.Fatalf("%+v after 0x%x, %d files", s, end, len(table.Files))
			}
			end = s.End
		}
		if len(table.Spans) > len(line) || len(table.Files) > len(line)+1 {
			t.Errorf("%d spans of %d files in %d bytes", len(table.Spans), len(table.Files), len(line))
		}
	})
}

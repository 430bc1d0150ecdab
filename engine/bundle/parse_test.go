package bundle

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
)

// rawEntry is an entry of a header that a test writes field by field.
type rawEntry struct {
	offset, size, idLen uint64
	id                  string
}

func entry(offset, size uint64, id string) rawEntry {
	return rawEntry{offset, size, uint64(len(id)), id}
}

// raw returns a bundle from fields that may be invalid.
func raw(count uint64, entries []rawEntry, tail string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte(Magic), count)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint64(b, e.offset)
		b = binary.LittleEndian.AppendUint64(b, e.size)
		b = binary.LittleEndian.AppendUint64(b, e.idLen)
		b = append(b, e.id...)
	}
	return append(b, tail...)
}

func TestParse(t *testing.T) {
	const header = 32 + 24 + 4
	for _, tt := range []struct {
		name string
		data []byte
		want *Bundle
		err  string
	}{
		{"no entries", raw(0, nil, ""), &Bundle{End: 32}, ""},
		{"one", raw(1, []rawEntry{entry(header, 3, "hipx")}, "abcd"),
			&Bundle{End: header + 3, Entries: []Entry{{"hipx", 32, header, 3, ""}}}, ""},
		{"empty entry anywhere", raw(1, []rawEntry{entry(0, 0, "host")}, ""),
			&Bundle{End: header, Entries: []Entry{{"host", 32, 0, 0, ""}}}, ""},
		{"shared content", raw(2, []rawEntry{entry(88, 2, "host"), entry(88, 2, "hipx")}, "ab"),
			&Bundle{End: 90, Entries: []Entry{{"host", 32, 88, 2, ""}, {"hipx", 60, 88, 2, ""}}}, ""},
		{"old layout, 3-field triples", raw(2, []rawEntry{entry(115, 0, "host-x86_64-unknown-linux"), entry(115, 2, "hip-a-b-c-")}, "ab"),
			&Bundle{End: 117, Entries: []Entry{{"host-x86_64-unknown-linux", 32, 115, 0, ""}, {"hip-a-b-c-", 81, 115, 2, ""}}}, ""},

		{"empty", nil, nil, "no bundle at byte 0x0: expected the magic __CLANG_OFFLOAD_BUNDLE__"},
		{"magic alone", []byte(Magic), nil, "no bundle at byte 0x0: expected the magic __CLANG_OFFLOAD_BUNDLE__"},
		{"magic and a byte", []byte(Magic + "\x00"), nil,
			"number of entries at byte 0x18 passes the end of the file (25 bytes). Not a whole bundle: was it cut short?"},
		{"huge count", raw(math.MaxUint64, nil, strings.Repeat("x", 5000)), nil,
			"number of entries at byte 0x18: headers of 18446744073709551615 entries pass the end of the file (5,032 bytes). Not a whole bundle: was it cut short?"},
		{"count too big by one", raw(3, []rawEntry{entry(80, 0, ""), entry(80, 0, "")}, ""), nil,
			"number of entries at byte 0x18: headers of 3 entries pass the end of the file (80 bytes). Not a whole bundle: was it cut short?"},
		{"header cut", raw(2, []rawEntry{entry(60, 0, "hipx")}, "12345678901234567890"), nil,
			"entry 2 of 2 at byte 0x3c: its header passes the end of the file (80 bytes). Not a whole bundle: was it cut short?"},
		{"ID too long", raw(1, []rawEntry{{60, 0, 5, "hipx"}}, ""), nil,
			"entry 1 of 1 at byte 0x20: ID of 0x5 bytes passes the end of the file (60 bytes). Not a whole bundle: was it cut short?"},
		{"ID length wraps", raw(1, []rawEntry{{60, 0, math.MaxUint64 - 8, "hipx"}}, ""), nil,
			"entry 1 of 1 at byte 0x20: ID of 0xfffffffffffffff7 bytes passes the end of the file (60 bytes). Not a whole bundle: was it cut short?"},
		{"offset past the end", raw(1, []rawEntry{entry(0x7fffffffffff, 0x2000, "hipx")}, ""), nil,
			"entry 1 of 1 at byte 0x20: offset 0x7fffffffffff + size 0x2000 passes the end of the file (60 bytes). Not a whole bundle: was it cut short?"},
		{"empty entry past the end", raw(1, []rawEntry{entry(61, 0, "hipx")}, ""), nil,
			"entry 1 of 1 at byte 0x20: offset 0x3d + size 0x0 passes the end of the file (60 bytes). Not a whole bundle: was it cut short?"},
		{"offset + size wraps", raw(1, []rawEntry{entry(60, math.MaxUint64-50, "hipx")}, "abc"), nil,
			"entry 1 of 1 at byte 0x20: offset 0x3c + size 0xffffffffffffffcd passes the end of the file (63 bytes). Not a whole bundle: was it cut short?"},
		{"inside the header", raw(1, []rawEntry{entry(59, 1, "hipx")}, "abc"), nil,
			"entry 1 of 1 at byte 0x20: offset 0x3b lies inside the header, which ends at 0x3c"},
		{"offset 0", raw(1, []rawEntry{entry(0, 1, "hipx")}, "abc"), nil,
			"entry 1 of 1 at byte 0x20: offset 0x0 lies inside the header, which ends at 0x3c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.data)
			if msg := message(err); msg != tt.err {
				t.Errorf("error %q, want %q", msg, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Every proper prefix of a bundle is rejected with a position.
func TestParseCutShort(t *testing.T) {
	data := raw(2, []rawEntry{entry(88, 2, "host"), entry(90, 10, "hipx")}, "abcdefghijkl")
	if _, err := Parse(data); err != nil {
		t.Fatal(err)
	}
	for n := len(Magic) + 1; n < len(data); n++ {
		b, err := Parse(data[:n])
		if err == nil {
			t.Fatalf("the first %d bytes give %v", n, b)
		}
		if !strings.Contains(err.Error(), "cut short?") {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func TestEnd(t *testing.T) {
	one := raw(1, []rawEntry{entry(60, 3, "hipx")}, "\x00b\x00")
	end, err := End(append(bytes.Clone(one), "CCOB"...))
	if err != nil || end != int64(len(one)) {
		t.Errorf("end %d, %v, want %d", end, err, len(one))
	}
	_, err = End(one[:62])
	if want := "entry 1 of 1 at byte 0x20: offset 0x3c + size 0x3 passes"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s…", err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		start := int64(len(data) - len(bytes.TrimLeft(data, "\x00")))
		b, err := ParseAt(data, start)
		if err != nil {
			return
		}
		if b.Start != start || b.End > int64(len(data)) || b.End < start+fixedHeader {
			t.Fatalf("bundle from %d to %d in %d bytes", b.Start, b.End, len(data))
		}
		for _, e := range b.Entries {
			_ = e.Content(data)
			if e.Offset+e.Size > b.End || e.At < start+fixedHeader || len(e.ID) > len(data) {
				t.Fatalf("entry %+v of a bundle to %d", e, b.End)
			}
		}
		// A bundle does not depend on the bytes before or after it.
		again, err := Parse(data[b.Start:b.End])
		if err != nil || len(again.Entries) != len(b.Entries) || again.End != b.End-b.Start {
			t.Fatalf("alone: %+v, %v", again, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var entries []rawEntry
	for range 11 {
		entries = append(entries, entry(0, 0, "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"))
	}
	data := raw(11, entries, "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

// A header is read from any prefix that contains it. For a shorter prefix, ReadHeader requests more
// bytes.
func TestReadHeader(t *testing.T) {
	var out content.Buffer
	items := []Item{{ID: "host-x86_64-unknown-linux--"}, {ID: "hip-amdgcn-amd-amdhsa--gfx942", Content: content.Memory(make([]byte, 5000))}}
	if err := write(&out, items, Options{Align: 4096}); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	whole, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	header := whole.Entries[1].At + fixedEntry + int64(len(items[1].ID))
	for n := int64(len(Magic)) + 1; n <= int64(len(data)); n++ {
		prefixes := [][]byte{data[:n], data}
		got, err := ReadHeader(int64(len(data)), func(int64) (prefix []byte, err error) {
			prefix, prefixes = prefixes[0], prefixes[1:]
			return prefix, nil
		})
		if more := len(prefixes) == 0; more != (n < header) {
			t.Fatalf("%d bytes: more bytes requested: %v", n, more)
		}
		if diff := cmp.Diff(whole, got); diff != "" || err != nil {
			t.Fatalf("%d bytes: %v\n%s", n, err, diff)
		}
	}
	if _, err := ReadHeader(5000, func(int64) ([]byte, error) { return data[:header], nil }); err == nil || !strings.Contains(err.Error(), "passes the end") {
		t.Errorf("an entry behind the end: %v", err)
	}
	if _, err := ReadHeader(int64(len(data)), func(int64) ([]byte, error) { return data[:header-1], nil }); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a header that does not end: %v", err)
	}
	if b, err := ReadHeader(5000, func(int64) ([]byte, error) { return []byte("text"), nil }); b != nil || err != nil {
		t.Errorf("not a bundle: %v, %v", b, err)
	}
}

// A crafted bundle does not fill the memory with entries.
func TestTooManyEntries(t *testing.T) {
	data := append([]byte(Magic), binary.LittleEndian.AppendUint64(nil, maxEntries+1)...)
	data = append(data, make([]byte, (maxEntries+1)*24)...)
	if _, err := Parse(data); err == nil || !strings.Contains(err.Error(), "65537 is more than the 65536") {
		t.Errorf("binary: %v", err)
	}
	text := bytes.Repeat([]byte("\n# __CLANG_OFFLOAD_BUNDLE____START__ x\n\n# __CLANG_OFFLOAD_BUNDLE____END__ x\n"), maxEntries+1)
	if _, err := ParseText(text, "#"); err == nil || !strings.Contains(err.Error(), "more than the 65536 entries") {
		t.Errorf("text: %v", err)
	}
}

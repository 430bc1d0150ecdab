package bundle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/content"
)

// idAndContent is an entry with its bytes, for comparisons.
type idAndContent struct{ ID, Content string }

func contents(data []byte, entries []Entry) []idAndContent {
	var out []idAndContent
	for _, e := range entries {
		out = append(out, idAndContent{e.ID, string(e.Content(data))})
	}
	return out
}

func items(from []idAndContent) []Item {
	var out []Item
	for _, e := range from {
		out = append(out, Item{e.ID, content.Memory([]byte(e.Content))})
	}
	return out
}

func TestParseText(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []idAndContent
		err        string
	}{
		{"empty", "", nil, ""},
		{"no bundle", "int main() {}\n", nil, ""},
		{"one", "\n// S host\nint x;\n\n// E host\n", []idAndContent{{"host", "int x;\n"}}, ""},
		{"empty content", "\n// S host\n\n// E host\n", []idAndContent{{"host", ""}}, ""},
		{"two", "\n// S a\nA\n// E a\n\n// S b\nB\n// E b\n", []idAndContent{{"a", "A"}, {"b", "B"}}, ""},
		{"text around", "x\n// S a\nA\n// E a\ny\n// S b\nB\n// E b\nz", []idAndContent{{"a", "A"}, {"b", "B"}}, ""},
		{"no empty lines", "// S a\nA\n// E a\n// S b\nB\n// E b\n", []idAndContent{{"a", "A"}, {"b", "B"}}, ""},
		{"other ID at the end", "\n// S a\nA\n// E b\n", []idAndContent{{"a", "A"}}, ""},
		{"no line break at the end", "\n// S a\nA\n// E a", []idAndContent{{"a", "A"}}, ""},
		{"START in a content", "\n// S a\n1\n// S b\n2\n// E a\n\n// S b\nB\n// E b\n", []idAndContent{{"a", "1\n// S b\n2"}, {"b", "B"}}, ""},
		{"END at the very start of a content", "\n// S a\n// E x\n// E a\n", []idAndContent{{"a", "// E x"}}, ""},
		{"marker inside a line", "x // S a\nA\n// E a\n", nil, ""},
		{"other comment", "\n# S a\nA\n# E a\n", nil, ""},
		{"no END", "\n// S a\nA\n// E a\n\n// S b\nBBB", nil,
			"entry 2 at byte 0x50: no END line: its content, from byte 0x77, passes the end of the file (122 bytes). Not a whole bundle: was it cut short?"},
		{"START cut", "\n// S a", nil,
			"entry 1 at byte 0x1: its START line passes the end of the file (39 bytes). Not a whole bundle: was it cut short?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			long := strings.NewReplacer(" S ", " "+Magic+"__START__ ", " E ", " "+Magic+"__END__ ")
			for i, e := range tt.want {
				tt.want[i].Content = long.Replace(e.Content)
			}
			data := []byte(long.Replace(tt.text))
			got, err := ParseText(data, "//")
			if msg := message(err); msg != tt.err {
				t.Errorf("error %q, want %q", msg, tt.err)
			}
			if diff := cmp.Diff(tt.want, contents(data, got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteText(t *testing.T) {
	var buf content.Buffer
	if err := WriteText(&buf, items([]idAndContent{{"host-x", "a\n"}, {"hip-y", ""}}), ";"); err != nil {
		t.Fatal(err)
	}
	want := "\n; __CLANG_OFFLOAD_BUNDLE____START__ host-x\na\n" +
		"\n; __CLANG_OFFLOAD_BUNDLE____END__ host-x\n" +
		"\n; __CLANG_OFFLOAD_BUNDLE____START__ hip-y\n" +
		"\n; __CLANG_OFFLOAD_BUNDLE____END__ hip-y\n"
	if diff := cmp.Diff(want, string(buf.Bytes())); diff != "" {
		t.Error(diff)
	}
}

func TestWriteTextRefuses(t *testing.T) {
	for _, tt := range []struct {
		items []idAndContent
		err   string
	}{
		{[]idAndContent{{"a", ""}, {"b", ""}, {"a", ""}}, "entries 1 and 3 of 3 have the same ID: a"},
		{[]idAndContent{{"a\nb", ""}}, `entry 1 of 1: "a\nb": an ID in a text bundle cannot have a line break`},
		{[]idAndContent{{"a", "x\n// " + Magic + "__END__ b\n"}}, "entry 1 of 1: a: its content has the END line of a bundle at byte 0x2, so it could not be read back"},
	} {
		var buf content.Buffer
		if err := WriteText(&buf, items(tt.items), "//"); message(err) != tt.err {
			t.Errorf("error %q, want %q", message(err), tt.err)
		}
		if buf.Len() != 0 {
			t.Errorf("%d bytes written before the error", buf.Len())
		}
	}
}

func TestComment(t *testing.T) {
	want := map[string]string{"i": "//", "ii": "//", "cui": "//", "hipi": "//", "d": "#", "s": "#", "ll": ";"}
	for _, typ := range strings.Fields("i ii cui hipi d ll bc s o a gch ast zz") {
		got, ok := FileType(typ).Comment()
		if got != want[typ] || ok != (want[typ] != "") {
			t.Errorf("Comment(%q) = %q, %v", typ, got, ok)
		}
	}
}

// Parsing returns what WriteText wrote.
func TestTextRoundTrip(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "\n", "# ", "// ", Magic, "__START__ ", "__END__ ", "_", "\x00"})
	rapid.Check(t, func(t *rapid.T) {
		comment := rapid.SampledFrom([]string{"//", "#", ";"}).Draw(t, "comment")
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9:+-]{1,9}`), 0, 5, rapid.ID[string]).Draw(t, "ids")
		var want []idAndContent
		for _, id := range ids {
			want = append(want, idAndContent{id, strings.Join(rapid.SliceOf(part).Draw(t, "content"), "")})
		}
		var buf content.Buffer
		if WriteText(&buf, items(want), comment) != nil {
			return
		}
		got, err := ParseText(buf.Bytes(), comment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contents(buf.Bytes(), got)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseText(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte, comment string) {
		entries, err := ParseText(data, comment)
		if err != nil {
			return
		}
		pos := int64(0)
		for _, e := range entries {
			if e.At < pos || e.Offset <= e.At || e.Offset+e.Size > int64(len(data)) {
				t.Fatalf("entry %+v behind byte %d of %d", e, pos, len(data))
			}
			pos = e.Offset + e.Size
		}
		var buf content.Buffer
		if WriteText(&buf, items(contents(data, entries)), comment) != nil {
			return
		}
		again, err := ParseText(buf.Bytes(), comment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(contents(data, entries), contents(buf.Bytes(), again)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The time to read must not depend on how many lines look like markers.
func BenchmarkParseText(b *testing.B) {
	line := "// " + Magic + "__STAR\n// " + Magic + "__EN\nint a = 0;\n"
	for _, bm := range []struct{ name, content string }{
		{"code", strings.Repeat("  buf[i] = __builtin_amdgcn_mov_dpp(buf[i], 0x111, 0xf, 0xf, 0);\n", 16<<10)},
		{"markers", strings.Repeat(line, 12<<10)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var buf content.Buffer
			data := []byte(bm.content)
			if err := WriteText(&buf, []Item{{"a", content.Memory(data)}, {"b", content.Memory(data)}}, "//"); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(buf.Len())
			data = bytes.Clone(buf.Bytes())
			for b.Loop() {
				if _, err := ParseText(data, "//"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

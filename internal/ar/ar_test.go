package ar

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// head returns a member header.
func head(name string, size int) string {
	return string(fileHeader(name, 0o644, int64(size)))
}

// member returns a whole member.
func member(name, data string) string {
	return head(name, len(data)) + data + strings.Repeat("\n", len(data)%2)
}

// be32 and the like return numbers as they are in an index.
func be32(v ...int) string { return numbers(v, binary.BigEndian.AppendUint32) }
func le16(v ...int) string { return numbers(v, binary.LittleEndian.AppendUint16) }
func le32(v ...int) string { return numbers(v, binary.LittleEndian.AppendUint32) }
func be64(v ...int) string { return numbers(v, binary.BigEndian.AppendUint64) }
func le64(v ...int) string { return numbers(v, binary.LittleEndian.AppendUint64) }

func numbers[T uint16 | uint32 | uint64](v []int, add func([]byte, T) []byte) string {
	var b []byte
	for _, n := range v {
		b = add(b, T(n))
	}
	return string(b)
}

// withIndex returns an archive of an index and members. index gets the offset of
// the first member.
func withIndex(index func(first int) string, members string) string {
	first := len(magic) + len(index(0))
	return magic + index(first) + members
}

// listing returns the members of an archive in a form to compare.
func listing(data []byte) ([]string, error) {
	a, err := Parse(data)
	if err != nil {
		return nil, err
	}
	list := []string{fmt.Sprintf("%v thin=%v", a.Kind(), a.Thin())}
	for m, err := range a.Members() {
		if err != nil {
			return list, err
		}
		list = append(list, fmt.Sprintf("%d %s size %d: %q", m.Index, m.Name, m.Size, m.Data))
		if !m.Thin && !bytes.Equal(data[m.DataOffset:m.DataOffset+m.Size], m.Data) {
			return list, fmt.Errorf("%s: DataOffset %#x is wrong", m.Name, m.DataOffset)
		}
	}
	return list, nil
}

// indexed returns the symbols in the index of a GNU archive, with the names of their members.
func indexed(data []byte) ([]string, error) {
	a, err := Parse(data)
	if err != nil {
		return nil, err
	}
	h, fault := a.header(len(magic))
	if h == nil || fault != nil {
		return nil, nil // an empty archive
	}
	index := data[h.body:h.end]
	next := func() int {
		n := int(binary.BigEndian.Uint32(index))
		index = index[4:]
		return n
	}
	switch h.raw {
	case "/":
	case "/SYM64/":
		next = func() int {
			n := int(binary.BigEndian.Uint64(index))
			index = index[8:]
			return n
		}
	default:
		return nil, nil
	}
	offsets := make([]int, next())
	for i := range offsets {
		offsets[i] = next()
	}
	names := make(map[int]string) // of the members, by the offset of their header
	for m, err := range a.Members() {
		if err != nil {
			return nil, err
		}
		names[int(m.Offset)] = m.Name
	}
	var list []string
	for _, off := range offsets {
		symbol, rest, _ := bytes.Cut(index, []byte{0})
		name, ok := names[off]
		if !ok {
			return nil, fmt.Errorf("index: no member at %d", off)
		}
		list, index = append(list, string(symbol)+" in "+name), rest
	}
	return list, nil
}

func TestRead(t *testing.T) {
	const names = "a_name_longer_than_16.o/\nx/y/z.bc/\n\n"
	for _, c := range []struct {
		name, data string
		want       []string
	}{
		{"empty", magic, []string{"GNU thin=false"}},
		{"empty thin", thinMagic, []string{"GNU thin=true"}},
		{
			"same name twice, no padding at the end",
			magic + member("a/", "abc") + member("b", "") + head("a/", 1) + "d",
			[]string{"GNU thin=false", `0 a size 3: "abc"`, `1 b size 0: ""`, `2 a size 1: "d"`},
		},
		{
			"long names",
			magic + member("//", names) + member("/25", "hi") + member("/0", ""),
			[]string{"GNU thin=false", `0 x/y/z.bc size 2: "hi"`, `1 a_name_longer_than_16.o size 0: ""`},
		},
		{
			"GNU index",
			withIndex(func(first int) string {
				return member("/", be32(2, first, first+62)+"f\x00g\x00") + member("//", names)
			}, member("a.o/", "hi")+member("/0", "ho")),
			[]string{"GNU thin=false", `0 a.o size 2: "hi"`, `1 a_name_longer_than_16.o size 2: "ho"`},
		},
		{
			"GNU index, 64 bits",
			withIndex(func(first int) string {
				return member("/SYM64/", be64(2, first, first+62)+"f\x00g\x00")
			}, member("a.o/", "hi")+member("b.o/", "ho")),
			[]string{"GNU64 thin=false", `0 a.o size 2: "hi"`, `1 b.o size 2: "ho"`},
		},
		{"index only", magic + member("/", be32(0)+"\x00\x00\x00\x00"), []string{"GNU thin=false"}},
		{
			"BSD",
			magic + member("#1/20", "a name of its own.o\x00hi") + member("b.o", "ho"),
			[]string{"BSD thin=false", `0 a name of its own.o size 2: "hi"`, `1 b.o size 2: "ho"`},
		},
		{
			"BSD index",
			withIndex(func(first int) string {
				return member("#1/20", "__.SYMDEF SORTED\x00\x00\x00\x00"+le32(16, 2, first, 0, first)+le32(4)+"g\x00f\x00")
			}, member("#1/4", "a.o\x00hi")),
			[]string{"BSD thin=false", `0 a.o size 2: "hi"`},
		},
		{
			"BSD index with a short name",
			withIndex(func(first int) string {
				return member("__.SYMDEF", le32(8, 0, first)+le32(2)+"f\x00")
			}, member("a.o", "hi")),
			[]string{"BSD thin=false", `0 a.o size 2: "hi"`},
		},
		{
			"Darwin index, 64 bits",
			withIndex(func(first int) string {
				return member("#1/12", "__.SYMDEF_64"+le64(16, 0, first)+le64(2)+"f\x00")
			}, member("#1/4", "a.o\x00hi")),
			[]string{"Darwin64 thin=false", `0 a.o size 2: "hi"`},
		},
		{
			"COFF",
			withIndex(func(first int) string {
				return member("/", be32(0)) + member("/", le32(2, first, first+62)+le32(2)+le16(2, 1)+"f\x00g\x00") +
					member("//", "a_long_name_17.ob\x00")
			}, member("/0", "hi")+member("b.o/", "ho")),
			[]string{"COFF thin=false", `0 a_long_name_17.ob size 2: "hi"`, `1 b.o size 2: "ho"`},
		},
		{
			"COFF of ARM64EC",
			magic + member("/", be32(0)) + member("/", le32(0, 0)) + member("//", "") + member("/<ECSYMBOLS>/", le32(0)) + member("a.o/", "hi"),
			[]string{"COFF thin=false", `0 a.o size 2: "hi"`},
		},
		{
			"thin",
			thinMagic + member("/", be32(0)) + member("//", "dir/a.o/\n/b.o/\n") + head("/0", 12345) + head("/9", 3),
			[]string{"GNU thin=true", `0 dir/a.o size 12345: ""`, `1 /b.o size 3: ""`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := listing([]byte(c.data))
			if err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	a := member("a.o/", "hi")
	for _, c := range []struct {
		name, data, ours string
		fault            Fault
	}{
		{"nothing", "", `archive member at byte 0x0: found "", expected "!<arch>\n" or "!<thin>\n"`, NoArchive},
		{"other file", "\x7fELF\x02\x01\x01\x00\x00", `found "\x7fELF\x02\x01\x01\x00"`, NoArchive},
		{"AIX", bigMagic + strings.Repeat("0", 128), "AIX big archive, which is not supported", BigArchive},
		{
			"header cut", magic + a + a[:20],
			"archive member at byte 0x46: 20 bytes left, a member header needs 60",
			HeaderCut,
		},
		{
			"name cut", magic + a + a[:10],
			"10 bytes left",
			HeaderCut,
		},
		{
			"terminator", magic + strings.Replace(a, "`\n", "\"\x01", 1),
			`archive member at byte 0x8: ends with "\"\x01", expected`,
			BadTerminator,
		},
		{
			"size", magic + head("a.o/", 0)[:48] + "12x       `\n",
			`size "12x" is not a number`,
			SizeDigits,
		},
		{
			"size past the end", magic + head("a.o/", 9999999999) + "hi",
			"archive member at byte 0x8: size 9999999999 passes the end of the archive (70 bytes)",
			SizePastEnd,
		},
		{
			"name offset", magic + member("//", "x/\n\n") + member("/1x", "hi"),
			`offset "1x" of the name is not a number`,
			NameOffsetDigits,
		},
		{
			"name past the end", magic + member("//", "x/\n\n") + member("/4", "hi"),
			"name at 4 passes the end of the table of names (4 bytes)",
			NameOffsetPastEnd,
		},
		{
			"name without end", magic + member("//", "abcdef") + member("/2", "hi"),
			`name at 2 of the table of names (byte 0x46) does not end with "/\n"`,
			NameUnterminated,
		},
		{
			"BSD name length", magic + member("#1/x", "hi"),
			`length "x" of the name is not a number`,
			NameLengthDigits,
		},
		{
			"BSD name too long", magic + member("#1/4", "hi"),
			"name of 4 bytes in a member of 2",
			NameLengthPastEnd,
		},
		{
			"BSD name with a space", magic + member("#1/2", "a\x00hi") + member(" x", "hi"),
			"name starts with a space",
			LeadingSpace,
		},
		{
			"special name", magic + member("/0", "hi"),
			`special name "/0" before the table of long names`,
			SpecialName,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := listing([]byte(c.data))
			var f *FormatError
			if !errors.As(err, &f) {
				t.Fatalf("got %v, want a FormatError", err)
			}
			if !strings.Contains(f.Error(), c.ours) {
				t.Errorf("got  %s\nwant %s", f, c.ours)
			}
			if f.Fault != c.fault {
				t.Errorf("got fault %d, want %d", f.Fault, c.fault)
			}
		})
	}
}

func TestMemberPath(t *testing.T) {
	for _, c := range [][3]string{
		{"lib.a", "x/a.o", "x/a.o"},
		{"out/lib.a", "../x/a.o", "out/../x/a.o"},
		{"/lib.a", "a.o", "/a.o"},
		{"out/lib.a", "/x/a.o", "/x/a.o"},
	} {
		if got := MemberPath(c[0], c[1]); got != c[2] {
			t.Errorf("%s in %s: got %s, want %s", c[1], c[0], got, c[2])
		}
	}
}

func memory(s string) content.Content { return content.Memory([]byte(s)) }

// The bytes are those of llvm-ar --format=gnu rcsD.
func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []NewMember
		want    string
	}{
		{"nothing", nil, magic},
		{
			"no objects",
			[]NewMember{{Name: "a.txt", Data: memory("odd")}, {Name: "b.txt"}},
			magic +
				"a.txt/          0           0     0     644     3         `\nodd\n" +
				"b.txt/          0           0     0     644     0         `\n",
		},
		{
			"object without symbols",
			[]NewMember{{Name: "a.o", Data: memory("OBJ"), Object: true}},
			magic +
				"/               0           0     0     0       8         `\n\x00\x00\x00\x00\x00\x00\x00\x00" +
				"a.o/            0           0     0     644     3         `\nOBJ\n",
		},
		{
			"symbols and long names",
			[]NewMember{
				{Name: "fifteen_bytes.o", Data: memory("OBJ"), Object: true, Symbols: []string{"f", "gh"}},
				{Name: "sixteen_bytes_.o", Data: memory("text")},
				{Name: "x/y.o", Data: memory("OB"), Object: true, Symbols: []string{"k"}},
				{Name: "sixteen_bytes_.o", Data: memory("")},
			},
			magic +
				"/               0           0     0     0       24        `\n" +
				"\x00\x00\x00\x03\x00\x00\x00\xb2\x00\x00\x00\xb2\x00\x00\x01\x32f\x00gh\x00k\x00\x00" +
				"//                                              26        `\nsixteen_bytes_.o/\nx/y.o/\n\n" +
				"fifteen_bytes.o/0           0     0     644     3         `\nOBJ\n" +
				"/0              0           0     0     644     4         `\ntext" +
				"/18             0           0     0     644     2         `\nOB" +
				"/0              0           0     0     644     0         `\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b content.Buffer
			if err := Write(context.Background(), &b, c.members); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(b.Bytes())); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestWriteErrors(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"", "a\nb", "a\x00b"} {
		var b content.Buffer
		if err := Write(ctx, &b, []NewMember{{Name: name}}); err == nil || b.Len() != 0 {
			t.Errorf("name %q: error %v, %d bytes written", name, err, b.Len())
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cause := errors.New("no reader")
	cancel(cause)
	if err := Write(ctx, new(content.Buffer), []NewMember{{Name: "a"}}); !errors.Is(err, cause) {
		t.Errorf("cancelled: got %v", err)
	}
}

// What is written is read back, whatever the names, and with either index.
func TestWriteRead(t *testing.T) {
	name := rapid.OneOf(
		rapid.StringMatching(`[a-z_.]{1,20}`),
		rapid.StringMatching(`[ -~]{1,24}`),
		rapid.SampledFrom([]string{"/", "//", "/SYM64/", "#1/3", "__.SYMDEF", "__.SYMDEF SORTED", "__.SYMDEF_64", "/0", "a/", "é", " x", "#1", "# x", "#1 x", "x "}),
	)
	rapid.Check(t, func(t *rapid.T) {
		var members []NewMember
		var want []string
		var symbols []string
		threshold := rapid.SampledFrom([]int64{sym64, 1, 200, 300}).Draw(t, "threshold")
		for i := range rapid.IntRange(0, 6).Draw(t, "members") {
			m := NewMember{Name: name.Draw(t, "name"), Data: content.Memory(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data"))}
			want = append(want, fmt.Sprintf("%d %s size %d: %q", i, m.Name, m.Data.Len(), m.Data.Mapped(guard.Inside)))
			if m.Object = rapid.Bool().Draw(t, "object"); m.Object {
				m.Symbols = rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,5}`), 0, 4).Draw(t, "symbols")
			}
			for _, s := range m.Symbols {
				symbols = append(symbols, s+" in "+m.Name)
			}
			members = append(members, m)
		}
		var b content.Buffer
		if err := write(context.Background(), &b, members, threshold); err != nil {
			t.Fatal(err)
		}
		got, err := listing(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		index, err := indexed(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(append(want, symbols...), append(got[1:], index...), cmp.Transformer("", func(s []string) []string { return append([]string{}, s...) })); d != "" {
			t.Fatal(d)
		}
		if b.Len()%2 != 0 {
			t.Fatal("odd size")
		}
	})
}

func FuzzArchive(f *testing.F) {
	f.Add([]byte(magic + member("//", "x/\n\n") + member("/0", "hi") + member("b/", "odd")))
	f.Add([]byte(withIndex(func(first int) string { return member("/", be32(1, first)+"f\x00") }, member("a.o/", "hi"))))
	f.Add([]byte(withIndex(func(first int) string { return member("/SYM64/", be64(1, first)+"f\x00") }, member("a.o/", "hi"))))
	f.Add([]byte(withIndex(func(first int) string { return member("__.SYMDEF", le32(8, 0, first, 2)+"f\x00") }, member("#1/4", "a.o\x00hi"))))
	f.Add([]byte(withIndex(func(first int) string {
		return member("/", "") + member("/", le32(1, first, 1)+le16(1)+"f\x00")
	}, member("a.o/", "hi"))))
	f.Add([]byte(thinMagic + member("//", "dir/a.o/\n\n") + head("/0", 12345)))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse(data)
		if err != nil {
			_ = err.(*FormatError).Fault
			return
		}
		end := int64(0)
		for m, err := range a.Members() {
			if err != nil {
				_ = err.(*FormatError).Fault
				break
			}
			if m.Offset < end || m.Size < 0 || !m.Thin && m.Size != int64(len(m.Data)) {
				t.Fatalf("member %d at %#x, size %d of %d, after one that ends at %#x", m.Index, m.Offset, m.Size, len(m.Data), end)
			}
			end = m.DataOffset + int64(len(m.Data))
		}
	})
}

// failing is a reader whose reads fail after the first n.
type failing struct {
	r io.ReaderAt
	n int
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errors.New("no more reads")
	}
	return f.r.ReadAt(p, off)
}

// Members are the same whether headers are read or in memory.
func TestReadHeaders(t *testing.T) {
	_, gnu := many(t)
	bsd := magic + member("#1/20", "a-rather-long-name.oDATA") + member("b.o", "b")
	list := func(data []byte, headers io.ReaderAt) (names []string) {
		a, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if headers != nil {
			a.ReadHeaders(headers)
		}
		for m, err := range a.Members() {
			if err != nil {
				return append(names, err.Error())
			}
			names = append(names, fmt.Sprintf("%d %s %#x %q", m.Index, m.Name, m.Offset, m.Data))
		}
		return names
	}
	for name, data := range map[string]string{
		"gnu": string(gnu), "bsd": bsd,
		"cut":        string(gnu[:len(gnu)-5000]),
		"cut header": string(gnu[:len(gnu)-10_030]),
		"terminator": bsd[:len(bsd)-4] + "x" + bsd[len(bsd)-3:],
		"size":       magic + member("a.o", "a") + strings.Replace(member("b.o", "b"), "1  ", "9  ", 1),
		"no digits":  magic + member("a.o", "a") + strings.Replace(member("b.o", "b"), "1  ", "x  ", 1),
	} {
		t.Run(name, func(t *testing.T) {
			want := list([]byte(data), nil)
			for _, n := range []int{1 << 20, 1, 0} {
				if diff := cmp.Diff(want, list([]byte(data), &failing{strings.NewReader(data), n})); diff != "" {
					t.Errorf("after %d reads (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

// many returns an archive of 400 members with 20 symbols each.
func many(tb testing.TB) ([]NewMember, []byte) {
	var members []NewMember
	data := make([]byte, 10_001)
	for i := range 400 {
		m := NewMember{Name: fmt.Sprintf("some_kernel_source_%d.o", i), Data: content.Memory(data), Object: true}
		for k := range 20 {
			m.Symbols = append(m.Symbols, fmt.Sprintf("_ZN6kernel%dEi%d", i, k))
		}
		members = append(members, m)
	}
	var b content.Buffer
	if err := Write(context.Background(), &b, members); err != nil {
		tb.Fatal(err)
	}
	return members, b.Bytes()
}

func BenchmarkMembers(b *testing.B) {
	_, data := many(b)
	b.ReportAllocs()
	for b.Loop() {
		a, err := Parse(data)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, err := range a.Members() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 400 {
			b.Fatal(n)
		}
	}
}

// sink accepts and discards everything.
type sink struct{}

func (sink) Write(p []byte) (int, error)    { return len(p), nil }
func (sink) Append(c content.Content) error { return nil }
func (sink) Zeros(n int64) error            { return nil }

func BenchmarkWrite(b *testing.B) {
	members, data := many(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(context.Background(), sink{}, members); err != nil {
			b.Fatal(err)
		}
	}
}

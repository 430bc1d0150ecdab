package packages

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// members are the files of the packages of these tests: text by name; "-> " begins the target of a link.
var members = map[string]string{
	"lib/a.so":   strings.Repeat("code ", 5000),
	"lib/a.so.1": "-> a.so",
	"empty":      "",
}

// expected is the result of read for them.
var expected = map[string]string{"lib/a.so": members["lib/a.so"], "lib/a.so.1": "-> a.so", "empty": ""}

func tarOf(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		h := &tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}
		link, isLink := strings.CutPrefix(text, "-> ")
		if isLink {
			h.Typeflag, h.Linkname, h.Size, text = tar.TypeSymlink, link, 0, ""
		}
		check(t, w.WriteHeader(h))
		_, err := io.WriteString(w, text)
		check(t, err)
	}
	check(t, w.Close())
	return out.Bytes()
}

func zipOf(t testing.TB, method uint16) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		h := &zip.FileHeader{Name: name, Method: method}
		h.SetMode(0o644)
		text, isLink := strings.CutPrefix(members[name], "-> ")
		if isLink {
			h.SetMode(0o777 | 1<<27) // a symbolic link
		}
		f, err := w.CreateHeader(h)
		check(t, err)
		_, err = io.WriteString(f, text)
		check(t, err)
	}
	check(t, w.Close())
	return out.Bytes()
}

func compressed(t testing.TB, name string, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch name {
	case "gz":
		w = gzip.NewWriter(&out)
	case "xz":
		w, err = xz.WriterConfig{BlockSize: 8 << 10, CheckSum: xz.SHA256}.NewWriter(&out)
	case "xz-crc":
		w, err = xz.WriterConfig{CheckSum: xz.CRC32}.NewWriter(&out)
	case "zst":
		w, err = zstd.NewWriter(&out)
	}
	check(t, err)
	_, err = w.Write(data)
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}

func debOf(data string, body []byte) []byte {
	out := []byte("!<arch>\n")
	for _, m := range []struct{ name, text string }{{"debian-binary", "2.0\n"}, {"control.tar.xz", "none"}, {data, string(body)}} {
		out = fmt.Appendf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", m.name, 0, 0, 0, "100644", len(m.text), m.text)
		if len(m.text)%2 == 1 {
			out = append(out, '\n')
		}
	}
	return out
}

func rpmOf(payload []byte) []byte {
	out := append(slices.Clone(rpmLead), make([]byte, rpmLeadSize-len(rpmLead))...)
	header := func(size int) {
		out = append(append(out, rpmHeader...), 0, 0, 0, 0)
		out = binary.BigEndian.AppendUint32(out, 1)
		out = binary.BigEndian.AppendUint32(out, uint32(size))
		out = append(out, make([]byte, 16+size)...)
	}
	header(5)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	header(7)
	return append(out, payload...)
}

func cpioOf() []byte {
	var out []byte
	add := func(name, text string, mode int) {
		out = fmt.Appendf(out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", 1, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name)+1, 0, name)
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
		out = append(out, text...)
		for len(out)%4 != 0 {
			out = append(out, 0)
		}
	}
	add("./lib", "", 0o040755)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		text, isLink := strings.CutPrefix(members[name], "-> ")
		mode := 0o100644
		if isLink {
			mode = 0o120777
		}
		add("./"+name, text, mode)
	}
	add("TRAILER!!!", "", 0)
	return out
}

// bzipped is a tar file with the member a of the text "x\n", as bzip2 writes it.
const bzipped = "425a6839314159265359082d7687000077fb90c9900040400077000000e0009e4004000008200054328046d344da87a8124a3d4f4431064173eeb6d334209c0848767ab15bef10810c2f720b72e8434fa80321b1b56950f2ca3c1da23cc3bfc84903f177245385090082d76870"

func packages(t testing.TB) map[string][]byte {
	t.Helper()
	plain := tarOf(t, members)
	list := map[string][]byte{
		"zip": zipOf(t, zip.Deflate), "zip-stored": zipOf(t, zip.Store), "tar": plain,
		"deb": debOf("data.tar", plain), "rpm": rpmOf(cpioOf()),
	}
	for _, c := range []string{"gz", "xz", "xz-crc", "zst"} {
		list["tar-"+c] = compressed(t, c, plain)
		list["deb-"+c] = debOf("data.tar."+c[:2], compressed(t, c, plain))
		list["rpm-"+c] = rpmOf(compressed(t, c, cpioOf()))
	}
	return list
}

// read returns the members of a package, and whether it was read to its end.
func read(t testing.TB, data []byte, load bool) (map[string]string, error) {
	t.Helper()
	found := make(map[string]string)
	b := budget.New(2, 1<<30)
	c := content.Memory(data)
	err := Walk(t.Context(), Identify(t.Context(), "", c, b), c, Options{Budget: b}, func(m *Member) error {
		if m.Link != "" {
			found[m.Name] = "-> " + m.Link
			return nil
		}
		head, err := m.Head()
		if err != nil {
			return err
		}
		head = slices.Clone(head)
		var out bytes.Buffer
		if load {
			body, free, err := m.Load(t.Context())
			if err != nil {
				return err
			}
			defer free()
			out.Write(body.Mapped(guard.Inside))
		} else if _, err := m.WriteTo(&out); err != nil {
			return err
		}
		if !bytes.HasPrefix(out.Bytes(), head) {
			t.Errorf("%s: the head is not the start of the content", m.Name)
		}
		found[m.Name] = out.String()
		return nil
	})
	return found, err
}

func TestWalk(t *testing.T) {
	for name, data := range packages(t) {
		for _, load := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/load=%t", name, load), func(t *testing.T) {
				found, err := read(t, data, load)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(expected, found); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestBzip2(t *testing.T) {
	data, err := hex.DecodeString(bzipped)
	check(t, err)
	found, err := read(t, data, true)
	if diff := cmp.Diff(map[string]string{"a": "x\n"}, found); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// TestCut reads packages without their end.
func TestCut(t *testing.T) {
	for name, data := range packages(t) {
		for _, part := range []int{4, 2} {
			if found, err := read(t, data[:len(data)*(part-1)/part], true); err == nil {
				t.Errorf("%s: %d members without the end, expected an error", name, len(found))
			}
		}
	}
}

// TestChecksum changes the checksum of a member of a zip file.
func TestChecksum(t *testing.T) {
	for _, load := range []bool{false, true} {
		data := zipOf(t, zip.Deflate)
		const header, crcAt = 46, 16 // of the directory
		data[bytes.LastIndex(data[:bytes.LastIndex(data, []byte("lib/a.so.1"))-1], []byte("lib/a.so"))-header+crcAt]++
		if _, err := read(t, data, load); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("found %v, expected an error about the checksum", err)
		}
	}
}

// TestNames has names that lead out of the package.
func TestNames(t *testing.T) {
	found, err := read(t, tarOf(t, map[string]string{"../../etc/a": "1", "b/../c": "2"}), true)
	if diff := cmp.Diff(map[string]string{"etc/a": "1", "c": "2"}, found); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// TestLimits reads files crafted to use much time or memory.
func TestLimits(t *testing.T) {
	plain := tarOf(t, members)
	zeros := compressed(t, "zst", tarOf(t, map[string]string{"zeros": strings.Repeat("\x00", 4<<20)}))
	for name, test := range map[string]struct {
		data   []byte
		left   int64
		reason string
	}{
		"dictionary": {largeDictionary(compressed(t, "xz-crc", plain)), freeBytes, "needs 1073741824 bytes of memory at a time, the limit is 268435456 bytes"},
		"two blocks": {twoBlocks(t, plain), freeBytes, "a block has a dictionary of"},
		"ratio":      {zeros, 1 << 20, "the content is more than 256 times as large as the package"},
	} {
		w := walker{ctx: t.Context(), budget: budget.New(2, 256<<20), left: test.left, visit: func(m *Member) error {
			_, err := m.WriteTo(io.Discard)
			return err
		}}
		if err := w.tarball(content.Memory(test.data)); err == nil || !strings.Contains(err.Error(), test.reason) {
			t.Errorf("%s: found %v, expected %s", name, err, test.reason)
		}
	}
}

// largeDictionary makes the first block of an xz file ask for a dictionary of 1 GiB.
func largeDictionary(data []byte) []byte {
	block := data[xzStreamHeader:]
	body := block[:int(block[0])*4]
	body[bytes.LastIndex(body, []byte{xzLZMA2, 1})+2] = 36 // 1 GiB
	binary.LittleEndian.PutUint32(block[len(body):], crc32.ChecksumIEEE(body))
	return data
}

// twoBlocks returns an xz file whose second block has a larger dictionary than the first.
func twoBlocks(t testing.TB, data []byte) []byte {
	t.Helper()
	var out []byte
	for i, dictionary := range []int{lzma.MinDictCap, 16 << 20} {
		var part bytes.Buffer
		w, err := xz.WriterConfig{DictCap: dictionary, CheckSum: xz.CRC32}.NewWriter(&part)
		check(t, err)
		_, err = w.Write(data[i*1024 : i*1024+1024])
		check(t, err)
		check(t, w.Close())
		out = append(out, part.Bytes()...)
	}
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzWalk reads any bytes as packages.
func FuzzWalk(f *testing.F) {
	for _, data := range packages(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := budget.New(2, 64<<20)
		c := content.Memory(data)
		for _, format := range []Format{Identify(t.Context(), "", c, b), RPM, Deb} {
			total := int64(0)
			_ = Walk(t.Context(), format, c, Options{Budget: b}, func(m *Member) error {
				head, err := m.Head()
				if err != nil || m.Size > 1<<20 {
					return err
				}
				body, free, err := m.Load(t.Context())
				if err != nil {
					return err
				}
				defer free()
				if body.Len() != m.Size || int64(len(head)) > m.Size {
					t.Errorf("%q: %d bytes, a head of %d, expected %d", m.Name, body.Len(), len(head), m.Size)
				}
				if total += m.Size; total > freeBytes+maxRatio*c.Len() {
					t.Error("more than the limit")
				}
				return nil
			})
		}
	})
}

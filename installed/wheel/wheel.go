package wheel

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// MaxText is the largest size of WHEEL, METADATA and RECORD, in bytes.
	MaxText = 64 << 20
	// maxRatio is the largest ratio of deflate, and a few bytes more for empty members.
	maxRatio, ratioSlack = 1032, 64

	encrypted = 1 // flag of a member
)

// Wheel is a wheel that was read. It is valid as long as its content.
type Wheel struct {
	Name     Name
	Members  []*Member // in the order of the central directory
	DistInfo string    // the directory NAME-VERSION.dist-info
	Info     *Headers  // the file WHEEL
	Metadata *Headers
	Record   []Row

	byName map[string]*Member
	rows   map[string]*Row
}

// Member is a file or a directory in a wheel.
type Member struct {
	Name string // ends with a slash if it is a directory
	Size int64  // uncompressed, in bytes
	zip  *zip.File
	file content.Content
}

// Read reads a wheel with a file name. It checks the structure of the archive, names, and WHEEL,
// METADATA and RECORD, but no hash: see Check and Unlisted.
func Read(name string, file content.Content) (_ *Wheel, err error) {
	defer guard.Into(&err)()
	parsed, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	w := &Wheel{Name: parsed, byName: make(map[string]*Member), rows: make(map[string]*Row)}
	if err := w.readMembers(file); err != nil {
		return nil, err
	}
	if err := w.findInfo(); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name  string
		parse func([]byte) error
	}{
		{"WHEEL", func(b []byte) (err error) { w.Info, err = ParseHeaders(b); return err }},
		{"METADATA", func(b []byte) (err error) { w.Metadata, err = ParseHeaders(b); return err }},
		{"RECORD", func(b []byte) (err error) { w.Record, err = ParseRecord(b); return err }},
	} {
		full := w.DistInfo + "/" + f.name
		m := w.byName[full]
		if m == nil {
			return nil, fmt.Errorf("%s is missing", full)
		}
		data, err := m.text()
		if err == nil {
			err = f.parse(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", full, err)
		}
	}
	return w, w.checkInfo()
}

// readMembers reads the directory of the archive.
func (w *Wheel) readMembers(file content.Content) error {
	r, err := zip.NewReader(file, file.Len())
	if err != nil {
		return fmt.Errorf("not a wheel: %w", err)
	}
	type span struct {
		from, to int64
		name     string
	}
	var spans []span
	for _, f := range r.File {
		if err := checkMember(&f.FileHeader); err != nil {
			return err
		}
		if w.byName[f.Name] != nil {
			return fmt.Errorf("%.200q is in the archive twice", f.Name)
		}
		from, err := f.DataOffset()
		if err != nil || from > file.Len() || f.CompressedSize64 > uint64(file.Len()-from) {
			return fmt.Errorf("%.200q: the archive is cut short or damaged", f.Name)
		}
		spans = append(spans, span{from, from + int64(f.CompressedSize64), f.Name})
		m := &Member{Name: f.Name, Size: int64(f.UncompressedSize64), zip: f, file: file.Slice(from, int64(f.CompressedSize64))}
		w.Members = append(w.Members, m)
		w.byName[f.Name] = m
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return fmt.Errorf("%.200q and %.200q overlap in the archive", spans[i-1].name, spans[i].name)
		}
	}
	return checkDirs(w.byName)
}

// checkDirs returns an error for names of members of which one is a file and the directory of another.
func checkDirs[T any](names map[string]T) error {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for dir := path.Dir(strings.TrimSuffix(name, "/")); dir != "."; dir = path.Dir(dir) {
			if _, found := names[dir]; found {
				return fmt.Errorf("%.200q is a file and also the directory of %.200q", dir, name)
			}
		}
	}
	return nil
}

// CheckName returns an error for names of members that no wheel can have.
func CheckName(member string) error {
	name := strings.TrimSuffix(member, "/")
	if len(name) > limits.Name || !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00\r\n") || len(name) > 1 && name[1] == ':' || !utf8.ValidString(name) {
		return fmt.Errorf("member %.200q: expected a relative path with slashes, without . and .., of at most %d bytes", member, limits.Name)
	}
	return nil
}

// checkMember returns an error for members that no wheel can have.
func checkMember(f *zip.FileHeader) error {
	if err := CheckName(f.Name); err != nil {
		return err
	}
	switch {
	case f.Flags&encrypted != 0:
		return fmt.Errorf("%.200q is encrypted", f.Name)
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("%.200q: found compression method %d, expected stored or deflate; repack the wheel with python3 -m wheel", f.Name, f.Method)
	case strings.HasSuffix(f.Name, "/") && f.CompressedSize64 > 0:
		return fmt.Errorf("%.200q is a directory with %d bytes", f.Name, f.CompressedSize64)
	case f.UncompressedSize64 > f.CompressedSize64*maxRatio+ratioSlack, f.Method == zip.Store && f.UncompressedSize64 != f.CompressedSize64:
		return fmt.Errorf("%.200q: %d bytes cannot expand to %d", f.Name, f.CompressedSize64, f.UncompressedSize64)
	}
	return nil
}

// findInfo finds the directory of METADATA.
func (w *Wheel) findInfo() error {
	for _, m := range w.Members {
		dir, _, inside := strings.Cut(m.Name, "/")
		if !inside || !strings.HasSuffix(dir, ".dist-info") || dir == w.DistInfo {
			continue
		}
		if w.DistInfo != "" {
			return fmt.Errorf("found the directories %.200s and %.200s, expected one .dist-info directory", w.DistInfo, dir)
		}
		w.DistInfo = dir
	}
	if w.DistInfo == "" {
		return errors.New("not a wheel: the .dist-info directory is missing")
	}
	return nil
}

// CheckInfo checks the file WHEEL.
func CheckInfo(h *Headers) error {
	if format := h.Get("Wheel-Version"); !strings.HasPrefix(format, "1.") {
		return fmt.Errorf("found Wheel-Version %.50q, expected 1.0", format)
	}
	return nil
}

// CheckMetadata checks the file METADATA in a directory NAME-VERSION.dist-info of a wheel against the
// name of the wheel.
func CheckMetadata(h *Headers, distInfo string, file Name) error {
	version, name := h.Get("Version"), h.Get("Name")
	project, _, _ := strings.Cut(strings.TrimSuffix(distInfo, ".dist-info"), "-")
	switch {
	case !ValidName(name):
		return fmt.Errorf("found the name %.100q, expected letters, digits, and - _ . between them", name)
	case Normalize(name) != Normalize(file.Distribution) || Normalize(project) != Normalize(name):
		return fmt.Errorf("found the name %.100q, expected that of the file and directory: %q", name, file.Distribution)
	case !validVersion(version) || EscapeVersion(version) != file.Version:
		return fmt.Errorf("found the version %.100q, expected that of the file: %q", version, file.Version)
	}
	return nil
}

// checkInfo checks what WHEEL, METADATA and RECORD say against the file name and members.
func (w *Wheel) checkInfo() error {
	if err := CheckInfo(w.Info); err != nil {
		return fmt.Errorf("%s/WHEEL: %w", w.DistInfo, err)
	}
	if err := CheckMetadata(w.Metadata, w.DistInfo, w.Name); err != nil {
		return fmt.Errorf("%s/METADATA: %w", w.DistInfo, err)
	}
	for i := range w.Record {
		row := &w.Record[i]
		if w.rows[row.Path] != nil {
			return fmt.Errorf("%s: %.200q is listed twice", w.recordFile(), row.Path)
		}
		if w.byName[row.Path] == nil {
			return fmt.Errorf("%s: %.200q is listed, but is not in the archive", w.recordFile(), row.Path)
		}
		w.rows[row.Path] = row
	}
	return nil
}

func validVersion(version string) bool {
	return version != "" && validPart(EscapeVersion(version))
}

func (w *Wheel) recordFile() string { return w.DistInfo + "/RECORD" }

// Member returns the member with a name, or nil.
func (w *Wheel) Member(name string) *Member { return w.byName[name] }

// IsDir reports whether the member is a directory.
func (m *Member) IsDir() bool { return strings.HasSuffix(m.Name, "/") }

// Stored returns the bytes of the member if they are not compressed.
func (m *Member) Stored() (content.Content, bool) { return m.file, m.zip.Method == zip.Store }

// WriteTo writes the uncompressed bytes and checks their size and CRC.
func (m *Member) WriteTo(out io.Writer) (int64, error) {
	r, err := m.zip.Open()
	if err != nil {
		return 0, m.damaged(err)
	}
	defer r.Close()
	n, err := io.Copy(out, &io.LimitedReader{R: r, N: m.Size + 1})
	if n > m.Size {
		err = fmt.Errorf("%w: more than the %d bytes of its header", zip.ErrFormat, m.Size)
	}
	return n, m.damaged(err)
}

// damaged adds the name of the member to errors of its compressed data.
func (m *Member) damaged(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &corrupt) {
		return fmt.Errorf("%.200q is damaged: %w", m.Name, err)
	}
	return err
}

// Begins reports whether the uncompressed bytes begin with prefix. A member that is damaged
// there does not.
func (m *Member) Begins(prefix string) bool {
	return string(m.Head(len(prefix))) == prefix
}

// Head returns the first n uncompressed bytes, or all of a smaller member. Of a member that is damaged there,
// it returns those before the damage.
func (m *Member) Head(n int) []byte {
	r, err := m.zip.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	b := make([]byte, min(int64(n), m.Size))
	n, _ = io.ReadFull(r, b)
	return b[:n]
}

// text returns the bytes of a small member.
func (m *Member) text() ([]byte, error) {
	if m.Size > MaxText {
		return nil, fmt.Errorf("found %d bytes, expected at most %d", m.Size, MaxText)
	}
	var b bytes.Buffer
	_, err := m.WriteTo(&b)
	return b.Bytes(), err
}

// Unlisted returns the files that RECORD does not list, though it must: all except RECORD itself
// and its signatures.
func (w *Wheel) Unlisted() []*Member {
	var all []*Member
	for _, m := range w.Members {
		if !m.IsDir() && w.rows[m.Name] == nil && !w.IsRecord(m.Name) {
			all = append(all, m)
		}
	}
	return all
}

// Scheme splits the name of a member into the prefix of its installation scheme, such as
// NAME-VERSION.data/platlib/, which is empty for most, and the path there.
func (w *Wheel) Scheme(name string) (prefix, rel string) {
	rest, ok := strings.CutPrefix(name, w.data())
	if scheme, rel, inside := strings.Cut(rest, "/"); ok && inside {
		return w.data() + scheme + "/", rel
	}
	return "", name
}

// data returns the directory of other installation schemes.
func (w *Wheel) data() string { return strings.TrimSuffix(w.DistInfo, ".dist-info") + ".data/" }

// IsRecord reports whether a member is RECORD or a signature of it.
func (w *Wheel) IsRecord(name string) bool {
	return name == w.recordFile() || name == w.recordFile()+".jws" || name == w.recordFile()+".p7s"
}

// Check compares a member with its line in RECORD, and writes its uncompressed bytes to out,
// which can be nil.
func (w *Wheel) Check(m *Member, out io.Writer) error {
	row := w.rows[m.Name]
	if m.IsDir() || row == nil || w.IsRecord(m.Name) {
		return nil
	}
	if row.Size >= 0 && row.Size != m.Size {
		return fmt.Errorf("%s: %.200q has %d bytes, expected %d", w.recordFile(), m.Name, m.Size, row.Size)
	}
	algorithm, expected, _ := strings.Cut(row.Hash, "=")
	newHash := map[string]func() hash.Hash{
		"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New, "sha1": sha1.New, "md5": md5.New,
	}[algorithm]
	if newHash == nil {
		return fmt.Errorf("%s: %.200q: found the hash %.100q, expected sha256=DIGEST", w.recordFile(), m.Name, row.Hash)
	}
	h := newHash()
	to := io.Writer(h)
	if out != nil {
		to = io.MultiWriter(h, out)
	}
	if _, err := m.WriteTo(to); err != nil {
		return err
	}
	if found := base64.RawURLEncoding.EncodeToString(h.Sum(nil)); found != strings.TrimRight(expected, "=") {
		return fmt.Errorf("%s: %.200q has the hash %s=%s, expected %s; the file was changed after RECORD was written", w.recordFile(), m.Name, algorithm, found, row.Hash)
	}
	return nil
}

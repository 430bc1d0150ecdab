package wheel

//lint:file-ignore SA1019 ModifiedDate and ModifiedTime are the fields of the format: Modified adds an extra field to each member

import (
	"archive/zip"
	"compress/flate"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"time"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Packed is the content of a new member.
type Packed struct {
	Stored content.Content // compressed if Deflated
	// Deflated reports whether Stored is compressed.
	Deflated bool
	Size     int64  // uncompressed, in bytes
	CRC      uint32 // of the uncompressed bytes, as is Hash
	Hash     string // in the form of RECORD
}

// Pack computes the CRC and hash of data. If deflated is not nil, it writes the compressed data to
// it, and the caller sets Stored to what was written.
func Pack(data content.Content, deflated io.Writer) (p Packed, err error) {
	defer guard.Into(&err)()
	p = Packed{Stored: data, Size: data.Len(), Deflated: deflated != nil}
	crc, sum := crc32.NewIEEE(), sha256.New()
	writers := []io.Writer{crc, sum}
	var deflate *flate.Writer
	if deflated != nil {
		var err error
		if deflate, err = flate.NewWriter(deflated, flate.DefaultCompression); err != nil {
			return p, err
		}
		writers = append(writers, deflate)
	}
	if _, err := io.Copy(io.MultiWriter(writers...), io.NewSectionReader(data, 0, data.Len())); err != nil {
		return p, err
	}
	p.CRC, p.Hash = crc.Sum32(), Hash([sha256.Size]byte(sum.Sum(nil)))
	if deflate != nil {
		return p, deflate.Close()
	}
	return p, nil
}

// PackBytes returns the content of a small member, deflated.
func PackBytes(data []byte) (Packed, error) {
	var b content.Buffer
	p, err := Pack(content.Memory(data), &b)
	p.Stored = content.Memory(b.Bytes())
	return p, err
}

// Writer writes a wheel. Members have no extra fields and no data descriptors, so that the bytes
// depend on the members alone. RECORD has a line for each file in the order in which the
// members were added, and is the last member.
type Writer struct {
	zip   *zip.Writer
	rows  []Row
	names map[string]bool
}

// NewWriter begins a wheel.
func NewWriter(out io.Writer) *Writer {
	return &Writer{zip: zip.NewWriter(out), names: make(map[string]bool)}
}

// Copy adds a member of a wheel under a name, without compressing it again.
func (w *Writer) Copy(from *Wheel, m *Member, name string) error {
	row := Row{Path: name, Size: m.Size}
	if old := from.rows[m.Name]; old != nil {
		row.Hash = old.Hash
	}
	return w.add(rawHeader(m, name), m.file, row)
}

// Replace adds a member with the name, time and permissions of m and new content.
func (w *Writer) Replace(m *Member, p Packed) error {
	return w.addPacked(rawHeader(m, m.Name), p)
}

// Store adds a new file that everybody can read, without compression.
func (w *Writer) Store(name string, modified time.Time, data content.Content) error {
	// unguarded: Pack has a guard, and so has the writer
	p, err := Pack(data, nil)
	return w.addNew(name, modified, p, err)
}

// Deflate adds a small new file that everybody can read.
func (w *Writer) Deflate(name string, modified time.Time, data []byte) error {
	p, err := PackBytes(data)
	return w.addNew(name, modified, p, err)
}

func (w *Writer) addNew(name string, modified time.Time, p Packed, err error) error {
	if err != nil {
		return err
	}
	h := zip.FileHeader{Name: name, Flags: utf8Names}
	h.SetMode(fs.FileMode(0o644))
	setTime(&h, modified)
	return w.addPacked(h, p)
}

// utf8Names is the flag of names in UTF-8.
const utf8Names = 0x800

// setTime sets the time of a member, in UTC and between the years 1980 and 2107.
func setTime(h *zip.FileHeader, t time.Time) {
	t = t.UTC()
	if first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(first) {
		t = first
	}
	if last := time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC); t.After(last) {
		t = last
	}
	h.ModifiedDate = uint16(t.Day() + int(t.Month())<<5 + (t.Year()-1980)<<9)
	h.ModifiedTime = uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11)
}

// Modified returns the time of a member in UTC.
func (m *Member) Modified() time.Time {
	d, t := int(m.zip.ModifiedDate), int(m.zip.ModifiedTime)
	return time.Date(d>>9+1980, time.Month(d>>5&15), d&31, t>>11, t>>5&63, t&31*2, 0, time.UTC)
}

// rawHeader returns the header of a copy of a member.
func rawHeader(m *Member, name string) zip.FileHeader {
	f := m.zip.FileHeader
	return zip.FileHeader{
		Name: name, CreatorVersion: f.CreatorVersion, Flags: f.Flags&^dataDescriptor | utf8Names, Method: f.Method,
		ModifiedTime: f.ModifiedTime, ModifiedDate: f.ModifiedDate, ExternalAttrs: f.ExternalAttrs,
		CRC32: f.CRC32, CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
	}
}

// dataDescriptor is the flag of a member with its sizes after the data.
const dataDescriptor = 8

func (w *Writer) addPacked(h zip.FileHeader, p Packed) error {
	h.Method = zip.Store
	if p.Deflated {
		h.Method = zip.Deflate
	}
	h.CRC32, h.CompressedSize64, h.UncompressedSize64 = p.CRC, uint64(p.Stored.Len()), uint64(p.Size)
	return w.add(h, p.Stored, Row{Path: h.Name, Hash: p.Hash, Size: p.Size})
}

func (w *Writer) add(h zip.FileHeader, data content.Content, row Row) error {
	if w.names[h.Name] {
		return fmt.Errorf("%.200q would be in the wheel twice", h.Name)
	}
	if err := checkMember(&h); err != nil {
		return err
	}
	if len(w.names) == limits.Members {
		return fmt.Errorf("%.200q: the wheel would have more than %d members", h.Name, limits.Members)
	}
	w.names[h.Name] = true
	h.ReaderVersion = 20 // deflate and directories
	const zip64, most = 45, 1<<32 - 1
	if h.CompressedSize64 >= most || h.UncompressedSize64 >= most {
		h.ReaderVersion = zip64
		h.Flags |= dataDescriptor // the only place for large sizes, as the header has no extra field
	}
	out, err := w.zip.CreateRaw(&h)
	if err != nil {
		return err
	}
	if h.Name[len(h.Name)-1] == '/' {
		return nil
	}
	w.rows = append(w.rows, row)
	_, err = io.Copy(out, io.NewSectionReader(data, 0, data.Len()))
	return err
}

// Close adds RECORD, with the time of other new files, and completes the wheel.
func (w *Writer) Close(distInfo string, modified time.Time) error {
	name := distInfo + "/RECORD"
	if err := w.Deflate(name, modified, FormatRecord(append(w.rows, Row{Path: name, Size: -1}))); err != nil {
		return err
	}
	if err := checkDirs(w.names); err != nil {
		return err
	}
	return w.zip.Close()
}

// Package check reads bundles back and verifies them. It shares no code with the packages that
// write and read bundles, because a fault in shared code would not be detected. It is simple
// instead of fast: it reads a bundle as a stream, once from beginning to end.
package check

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Entry is an entry that a bundle should have.
type Entry struct {
	ID string // in standard form
	// Content is the expected content of the entry.
	Content []byte
	Name    string // of the image in messages, such as its path
}

// Options describe the expected bundle.
type Options struct {
	// Entries are all expected entries, in order. If there are none, any entries are
	// accepted.
	Entries []Entry
	// MaxSize is the largest permitted size of the file in bytes; 0 permits any.
	MaxSize int64
	// Linked limits the size to that of a file that is linked into a program.
	Linked bool
	// DeviceCode requires the images of AMD GPUs to be complete device code. Otherwise,
	// only code for another GPU is an error.
	DeviceCode bool
}

// Found is an entry of the bundle.
type Found struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"` // bytes, in the uncompressed bundle
	Size   int64  `json:"size"`   // bytes
}

// Result is the result of Bundle.
type Result struct {
	Found []Found // the entries of the bundle
	// Problems are the errors that were found; several if they are independent.
	Problems []error
	// Warnings describe a valid bundle that some programs cannot read.
	Warnings []error
}

const (
	plainMagic      = "__CLANG_OFFLOAD_BUNDLE__"
	compressedMagic = "CCOB"

	// maxEntries and maxID bound the memory for a header.
	maxEntries = 1 << 16
	maxID      = 1 << 12
	maxHeader  = 16 << 20

	// maxWindow is the largest window of a zstd frame, in bytes; libzstd has the same limit.
	maxWindow = 2 << 30

	// maxLinked is the largest size of a fat binary in a program, in bytes: code of the
	// usual models can address 2 GiB, which other data shares.
	maxLinked = 2<<30 - 64<<20
)

// Bundle checks a binary bundle, compressed or not. data is the complete file.
func Bundle(data []byte, opt Options) Result {
	found, problems := bundle(data, opt)
	return Result{Found: found, Problems: problems, Warnings: magics(data)}
}

// maxMagics is the largest number of positions that a warning lists.
const maxMagics = 3

// magics adds a warning for each magic number inside a compressed bundle.
func magics(data []byte) (warnings []error) {
	if !bytes.HasPrefix(data, []byte(compressedMagic)) {
		return nil
	}
	var places []string
	for pos := 1; ; pos++ {
		i := bytes.Index(data[pos:], []byte(compressedMagic))
		if i < 0 {
			break
		}
		pos += i
		if len(places) == maxMagics {
			places = append(places, "other places")
			break
		}
		places = append(places, fmt.Sprintf("byte 0x%x", pos))
	}
	if places == nil {
		return nil
	}
	return []error{fmt.Errorf("the magic of compressed bundles, %q, also occurs at %s: programs that find the next bundle in a section by its magic, such as llvm-objdump --offloading of LLVM 22 and some HIP runtimes, read a truncated bundle and fail; compress it again with this release of offload, which avoids the magic",
		compressedMagic, strings.Join(places, ", "))}
}

// Memory returns the memory in bytes that Bundle uses for data: the largest window of its zstd
// frames. Frames after a damaged one do not count, because they are not decoded.
func Memory(data []byte) int64 {
	h, err := parseHeader(data)
	if !bytes.HasPrefix(data, []byte(compressedMagic)) || err != nil || h.method != 1 {
		return 0
	}
	largest := uint64(0)
	for rest := data[h.length:]; len(rest) > 0; {
		var frame zstd.Header
		if frame.Decode(rest) != nil {
			break
		}
		window := frame.WindowSize
		if frame.SingleSegment {
			window = frame.FrameContentSize
		}
		if window <= maxWindow { // others are errors
			largest = max(largest, window)
		}
		if rest = behindFrame(rest, &frame); rest == nil {
			break
		}
	}
	return int64(largest)
}

// behindFrame returns the data after the frame at the start of data, or nil if the frame is
// incomplete.
func behindFrame(data []byte, frame *zstd.Header) []byte {
	at := uint64(frame.HeaderSize)
	if frame.Skippable {
		at += uint64(frame.SkippableSize)
	}
	for last := frame.Skippable; !last; {
		if at+3 > uint64(len(data)) {
			return nil
		}
		block := uint32(data[at]) | uint32(data[at+1])<<8 | uint32(data[at+2])<<16
		last = block&1 != 0
		at += 3
		if block>>1&3 == 1 {
			at++ // a run of one byte
		} else {
			at += uint64(block >> 3)
		}
	}
	if frame.HasCheckSum {
		at += 4
	}
	if at > uint64(len(data)) {
		return nil
	}
	return data[at:]
}

// bundle is Bundle without the warnings.
func bundle(data []byte, opt Options) (found []Found, problems []error) {
	size := int64(len(data))
	switch {
	case opt.MaxSize > 0 && size > opt.MaxSize:
		problems = append(problems, fmt.Errorf("found %d bytes, expected at most %d, the size budget: compress the bundle, remove architectures, or raise the budget", size, opt.MaxSize))
	case opt.Linked && size > maxLinked:
		problems = append(problems, fmt.Errorf("found %d bytes, expected at most %d, because a program can address 2 GiB of data: compress the bundle, or remove architectures", size, maxLinked))
	}
	raw, finish, err := open(data)
	if err != nil {
		return nil, append(problems, err)
	}
	c := &checker{in: raw, expected: map[string]*Entry{}, deviceCode: opt.DeviceCode}
	for i := range opt.Entries {
		c.expected[opt.Entries[i].ID] = &opt.Entries[i]
	}
	found, err = c.header()
	if err == nil {
		problems = append(problems, coverage(found, opt.Entries)...)
		problems = append(problems, conflicts(found)...)
		err = c.contents(found)
	}
	problems = append(problems, c.problems...)
	if err == nil {
		err = finish()
	}
	if err != nil {
		problems = append(problems, err)
	}
	return found, problems
}

// open returns the uncompressed bytes of a bundle, and a function that, after the last of them,
// checks the header of a compressed bundle.
func open(data []byte) (io.Reader, func() error, error) {
	if !bytes.HasPrefix(data, []byte(compressedMagic)) {
		if start := data[:min(len(data), len(plainMagic))]; len(start) == 0 || !strings.HasPrefix(plainMagic, string(start)) {
			return nil, nil, errors.New("not a bundle: found " + Format(data[:min(len(data), headSize)]))
		}
		plain := bytes.NewReader(data)
		return plain, func() error {
			if plain.Len() > 0 {
				return fmt.Errorf("%d bytes after the last entry", plain.Len())
			}
			return nil
		}, nil
	}
	h, err := parseHeader(data)
	if err != nil {
		return nil, nil, err
	}
	stream, err := h.decoder(data[h.length:])
	if err != nil {
		return nil, nil, err
	}
	// Reading one more byte than expected detects data that is too long.
	sum := &summed{in: io.LimitReader(stream, h.rawSize+1), hash: md5.New()}
	return sum, func() error {
		behind, err := io.Copy(io.Discard, sum)
		if err != nil {
			return err
		}
		if sum.size != h.rawSize {
			return fmt.Errorf("the uncompressed bundle has %d bytes or more, its header states %d", sum.size, h.rawSize)
		}
		if got := binary.LittleEndian.Uint64(sum.hash.Sum(nil)); got != h.hash {
			return fmt.Errorf("the hash of the uncompressed bytes is 0x%016x, the header states 0x%016x", got, h.hash)
		}
		if behind > 0 {
			return fmt.Errorf("%d bytes after the last entry", behind)
		}
		return nil
	}, nil
}

// compressedHeader is the header of a compressed bundle.
type compressedHeader struct {
	length  int
	method  uint16
	rawSize int64
	hash    uint64
}

func parseHeader(data []byte) (*compressedHeader, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("%d bytes are too few for the header of a compressed bundle", len(data))
	}
	version := binary.LittleEndian.Uint16(data[4:])
	h := &compressedHeader{method: binary.LittleEndian.Uint16(data[6:])}
	lengths := map[uint16]int{1: 20, 2: 24, 3: 32}
	h.length = lengths[version]
	if h.length == 0 {
		return nil, fmt.Errorf("version of the header at byte 0x4: found %d, expected 1, 2 or 3", version)
	}
	if len(data) < h.length {
		return nil, fmt.Errorf("%d bytes are too few for the header of a compressed bundle of version %d", len(data), version)
	}
	fileSize, rawSize := uint64(len(data)), uint64(0)
	switch version {
	case 1:
		rawSize = uint64(binary.LittleEndian.Uint32(data[8:]))
	case 2:
		fileSize, rawSize = uint64(binary.LittleEndian.Uint32(data[8:])), uint64(binary.LittleEndian.Uint32(data[12:]))
	case 3:
		fileSize, rawSize = binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
	}
	h.hash = binary.LittleEndian.Uint64(data[h.length-8:])
	if fileSize != uint64(len(data)) {
		return nil, fmt.Errorf("the header states a file size of %d bytes, found %d", fileSize, len(data))
	}
	if rawSize > 1<<62 {
		return nil, fmt.Errorf("the header states %d uncompressed bytes", rawSize)
	}
	h.rawSize = int64(rawSize)
	return h, nil
}

func (h *compressedHeader) decoder(data []byte) (io.Reader, error) {
	switch h.method {
	case 0:
		return zlib.NewReader(bytes.NewReader(data))
	case 1:
		return zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
	}
	return nil, fmt.Errorf("compression method at byte 0x6: found %d, expected 0 (zlib) or 1 (zstd)", h.method)
}

// summed counts and hashes the bytes that are read.
type summed struct {
	in   io.Reader
	hash hash.Hash
	size int64
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.hash.Write(p[:n])
	s.size += int64(n)
	return n, err
}

// checker reads an uncompressed bundle.
type checker struct {
	in       io.Reader
	at       int64
	expected map[string]*Entry // by ID
	problems []error

	deviceCode bool // Options.DeviceCode
}

// read fills p. what names these bytes in the error.
func (c *checker) read(p []byte, what string) error {
	n, err := io.ReadFull(c.in, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the bundle ends at byte 0x%x, inside %s", c.at+int64(n), what)
	}
	c.at += int64(n)
	return err
}

func (c *checker) number(what string) (uint64, error) {
	var b [8]byte
	err := c.read(b[:], what)
	return binary.LittleEndian.Uint64(b[:]), err
}

// header reads the list of entries.
func (c *checker) header() ([]Found, error) {
	magic := make([]byte, len(plainMagic))
	if err := c.read(magic, "the magic"); err != nil {
		return nil, fmt.Errorf("not a bundle: %w", err)
	}
	if string(magic) != plainMagic {
		return nil, fmt.Errorf("not a bundle: found %q, expected the magic %q", magic[:8], plainMagic)
	}
	n, err := c.number("the number of entries")
	if err != nil {
		return nil, err
	}
	if n > maxEntries {
		return nil, fmt.Errorf("number of entries at byte 0x18: found %d, expected at most %d", n, maxEntries)
	}
	var found []Found
	for i := range n {
		what := fmt.Sprintf("the header of entry %d of %d", i+1, n)
		var numbers [3]uint64
		for k := range numbers {
			if numbers[k], err = c.number(what); err != nil {
				return nil, err
			}
		}
		offset, size, length := numbers[0], numbers[1], numbers[2]
		if length > maxID {
			return nil, fmt.Errorf("%s: an ID of %d bytes", what, length)
		}
		if offset > 1<<62 || size > 1<<62 {
			return nil, fmt.Errorf("%s: offset 0x%x, size 0x%x", what, offset, size)
		}
		if c.at+int64(length) > maxHeader {
			return nil, fmt.Errorf("%s: the headers of the entries have more than %d bytes", what, maxHeader)
		}
		id := make([]byte, length)
		if err := c.read(id, what); err != nil {
			return nil, err
		}
		found = append(found, Found{ID: string(id), Offset: int64(offset), Size: int64(size)})
	}
	return found, nil
}

// contents reads the contents of the entries, in the order of their offsets.
func (c *checker) contents(found []Found) error {
	order := slices.Clone(found)
	slices.SortStableFunc(order, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	for i := 0; i < len(order); i++ {
		e := &order[i]
		shared := 1
		for i+shared < len(order) && e.Size > 0 && order[i+shared].Offset == e.Offset && order[i+shared].Size == e.Size {
			shared++
		}
		switch {
		case e.Size == 0:
			c.checkSize(e)
			if c.deviceCode {
				c.checkImage(e, new(image).problem)
			}
			// The offset of an empty entry is not significant, but writers align it, too.
			if err := c.align(e); err != nil {
				return err
			}
			continue
		case e.Offset < c.at:
			return fmt.Errorf("entry %s at byte 0x%x overlaps data that ends at byte 0x%x", e.ID, e.Offset, c.at)
		}
		if err := c.skip(io.Discard, e.Offset-c.at, "inside the padding before entry "+e.ID); err != nil {
			return err
		}
		if err := c.content(order[i : i+shared]); err != nil {
			return err
		}
		i += shared - 1
	}
	return nil
}

// align reads the padding before an empty entry.
func (c *checker) align(e *Found) error {
	n := e.Offset - c.at
	if n <= 0 {
		return nil
	}
	return c.skip(&zeroWriter{at: c.at}, n, fmt.Sprintf("before byte 0x%x, where the empty entry %s should be", e.Offset, e.ID))
}

// zeroWriter checks that all bytes written to it are zero.
type zeroWriter struct{ at int64 }

// Write returns an error if p has a byte that is not zero.
func (z *zeroWriter) Write(p []byte) (int, error) {
	for i, b := range p {
		if b != 0 {
			return i, fmt.Errorf("byte 0x%x is not part of an entry and is not zero", z.at+int64(i))
		}
	}
	z.at += int64(len(p))
	return len(p), nil
}

// skip passes n bytes of padding to w. where says in messages where a shorter bundle ends.
func (c *checker) skip(w io.Writer, n int64, where string) error {
	skipped, err := io.CopyN(w, c.in, n)
	c.at += skipped
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the bundle ends at byte 0x%x, %s", c.at, where)
	}
	return err
}

// content reads the content of entries that share it.
func (c *checker) content(shared []Found) error {
	size := shared[0].Size
	what := "entry " + shared[0].ID
	block := make([]byte, min(size, 1<<20))
	img := &image{size: size}
	differs := make([]int64, len(shared))
	for done := int64(0); done < size; {
		p := block[:min(int64(len(block)), size-done)]
		if err := c.read(p, what); err != nil {
			return err
		}
		img.Write(p)
		for k := range shared {
			expected := c.expected[shared[k].ID]
			if expected != nil && differs[k] == 0 && size == int64(len(expected.Content)) {
				if want := expected.Content[done : done+int64(len(p))]; !bytes.Equal(p, want) {
					differs[k] = 1 + done + firstDifference(p, want)
				}
			}
		}
		done += int64(len(p))
	}
	problem := img.wrongTarget
	if c.deviceCode {
		problem = img.problem
	}
	for k := range shared {
		e := &shared[k]
		c.checkImage(e, problem)
		if differs[k] > 0 {
			c.problems = append(c.problems, fmt.Errorf("entry %s differs from its image at byte 0x%x", e.ID, differs[k]-1))
		}
		c.checkSize(e)
	}
	return nil
}

// checkImage adds the problem that a function finds in the image of an entry, which it gets with the
// name of the image for messages.
func (c *checker) checkImage(e *Found, problem func(id, name string) error) {
	name := "its image"
	if expected := c.expected[e.ID]; expected != nil && expected.Name != "" {
		name += ", " + expected.Name + ","
	}
	if err := problem(e.ID, name); err != nil {
		c.problems = append(c.problems, fmt.Errorf("entry %s: %w", e.ID, err))
	}
}

// checkSize compares the size of an entry with that of its image.
func (c *checker) checkSize(e *Found) {
	if expected := c.expected[e.ID]; expected != nil && e.Size != int64(len(expected.Content)) {
		c.problems = append(c.problems, fmt.Errorf("entry %s has %d bytes, its image %d", e.ID, e.Size, len(expected.Content)))
	}
}

func firstDifference(a, b []byte) int64 {
	for i := range a {
		if a[i] != b[i] {
			return int64(i)
		}
	}
	return int64(len(a))
}

// coverage compares the entries of the bundle with the expected ones.
func coverage(found []Found, entries []Entry) (problems []error) {
	have := map[string]bool{}
	var ids []string
	for _, f := range found {
		if have[f.ID] {
			problems = append(problems, fmt.Errorf("duplicate entry %s", f.ID))
		}
		have[f.ID] = true
		ids = append(ids, f.ID)
	}
	if entries == nil {
		return problems
	}
	want := map[string]bool{}
	var wanted []string
	for _, e := range entries {
		want[e.ID] = true
		wanted = append(wanted, e.ID)
		if !have[e.ID] {
			problems = append(problems, fmt.Errorf("missing entry %s", e.ID))
		}
	}
	for _, f := range found {
		if !want[f.ID] {
			problems = append(problems, fmt.Errorf("unexpected entry %s", f.ID))
		}
	}
	if len(problems) == 0 && !slices.Equal(ids, wanted) {
		problems = append(problems, fmt.Errorf("the order of entries is %s, expected %s", strings.Join(ids, " "), strings.Join(wanted, " ")))
	}
	return problems
}

// conflicts finds entries for one processor of which one names a feature and
// another does not: a runtime cannot select one of them.
func conflicts(found []Found) (problems []error) {
	first := map[string]Found{}
	for _, f := range found {
		prefix, targetID := splitID(f.ID)
		processor, features, _ := strings.Cut(targetID, ":")
		key := prefix + processor
		other, ok := first[key]
		if !ok {
			first[key] = f
			continue
		}
		_, otherID := splitID(other.ID)
		_, otherFeatures, _ := strings.Cut(otherID, ":")
		if names(features) != names(otherFeatures) {
			problems = append(problems, fmt.Errorf("entries %s and %s cannot be in one bundle: all entries of a processor must specify the same features", other.ID, f.ID))
		}
	}
	return problems
}

// names returns the names of features without their signs, in order.
func names(features string) string {
	all := strings.Split(strings.NewReplacer("+", "", "-", "").Replace(features), ":")
	slices.Sort(all)
	return strings.Join(all, ":")
}

// splitID divides an entry ID into the part before the target ID and the target ID.
func splitID(id string) (prefix, targetID string) {
	fields := strings.SplitN(id, "-", 6)
	if len(fields) < 6 {
		return id, ""
	}
	return strings.TrimSuffix(id, fields[5]), fields[5]
}

package ccob

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Piece is a run of raw bytes: the header of the plain bundle or an entry.
type Piece struct {
	Offset  int64         // in the raw bytes; what lies between pieces is zero
	Content files.Content // may be empty
	ID      string        // entry ID, empty for the header
}

func (p Piece) end() int64 { return p.Offset + p.Content.Len() }

// Frames says how the raw bytes are cut into zstd frames. A frame can be decoded
// on its own but cannot refer to what other frames hold, and entries of
// related processors are much alike.
type Frames int

const (
	// FramesAuto makes one frame of a small bundle, and of a large one a frame
	// for each run of entries of one family of processors: gfx6 to gfx9, gfx10,
	// and gfx11 on. At level Small, and where much of the bundle is compressed
	// already, as debug sections are, only frames of 128 MiB and more are cut.
	FramesAuto Frames = iota
	// FramesEntry makes a frame of every entry: the finest random access, at
	// the largest size.
	FramesEntry
	// FramesOne makes one frame and no index: what LLVM writes.
	FramesOne
)

// Limits of FramesAuto. Cuts between families cost 0.2 to 2 % in size, and the frames
// are still smaller than the one that libzstd makes at LLVM's default level. Not so
// where entries have compressed debug sections in common: there is nothing else to
// gain than to refer to the other entry, and a cut costs up to 16 %. From 128 MiB
// on, the window of LLVM, a cut takes nothing away that LLVM has.
const (
	autoFrom       = 16 << 20  // raw size from which on it cuts at all
	autoLeast      = 4 << 20   // the smallest frame it makes
	autoLeastSmall = 128 << 20 // the same where the size matters most
)

// cut returns the pieces of each frame. The raw bytes of a frame go from its first
// piece to the first of the next.
func cut(pieces []Piece, how Frames, level Level) ([][]Piece, error) {
	if how == FramesOne || len(pieces) < 2 {
		return [][]Piece{pieces}, nil
	}
	least := int64(0)
	if how == FramesAuto {
		least = autoLeast
		size := pieces[len(pieces)-1].end() - pieces[0].Offset
		if size < autoFrom {
			return [][]Piece{pieces}, nil
		}
		dense, err := compressedAlready(pieces)
		if err != nil {
			return nil, err
		}
		if dense || level != Fast {
			least = autoLeastSmall
		}
		if size < least {
			return [][]Piece{pieces}, nil
		}
	}
	var list [][]Piece
	start := 0
	for i := 1; i < len(pieces); i++ {
		// A frame without content is good for nothing: leave empty pieces where they are.
		if pieces[i].Content.Len() == 0 || pieces[start].ID != "" && how == FramesAuto && !cutsHere(pieces, start, i, least) {
			continue
		}
		list = append(list, pieces[start:i])
		start = i
	}
	if how == FramesAuto && len(list) == 1 {
		return [][]Piece{pieces}, nil // the header alone needs no frame
	}
	return append(list, pieces[start:]), nil
}

// cutsHere tells whether FramesAuto begins a frame with piece i, the last having begun
// with piece start.
func cutsHere(pieces []Piece, start, i int, least int64) bool {
	return Family(pieces[i].ID) != Family(pieces[i-1].ID) && pieces[i].Offset-pieces[start].Offset >= least
}

const (
	samples    = 256
	sampleSize = 4096
	// evenMost is the sum of the squares of the frequencies of the bytes of a sample
	// that looks random; random bytes have 69616 on average, machine code several
	// 100,000.
	evenMost = 100_000
)

// compressedAlready tells, from samples, whether more than a sixteenth of the pieces
// looks compressed.
func compressedAlready(pieces []Piece) (bool, error) {
	size := int64(0)
	for _, p := range pieces {
		size += p.Content.Len()
	}
	buf := make([]byte, sampleSize)
	dense, pos, next := 0, int64(0), int64(0)
	for _, p := range pieces {
		n := p.Content.Len()
		for ; next < pos+n; next += max(size/samples, 1) {
			if n < sampleSize {
				continue
			}
			if _, err := p.Content.ReadAt(buf, min(next-pos, n-sampleSize)); err != nil {
				return false, err
			}
			var counts [256]int
			for _, c := range buf {
				counts[c]++
			}
			sum := 0
			for _, n := range counts {
				sum += n * n
			}
			if sum < evenMost {
				dense++
			}
		}
		pos += n
	}
	return dense > samples/16, nil
}

// Family names the processors whose code is alike, of which the entry ID names one; it
// is empty for anything but AMD GPUs. Entries of a family belong into one part.
func Family(id string) string {
	_, gfx, ok := strings.Cut(id, "gfx")
	if !ok {
		return ""
	}
	// The last two characters of the name are minor version and stepping; generic
	// names have dashes behind the major version.
	gfx, _, _ = strings.Cut(gfx, ":")
	major, _, generic := strings.Cut(gfx, "-")
	if !generic && len(gfx) > 2 {
		major = gfx[:len(gfx)-2]
	}
	switch major {
	case "6", "7", "8", "9":
		return "gfx9"
	case "11", "12", "13":
		return "gfx11"
	}
	return "gfx" + major
}

// checkPieces refuses pieces that are out of order and returns the raw size.
func checkPieces(pieces []Piece) (int64, error) {
	end := int64(0)
	for i, p := range pieces {
		if p.Offset < end {
			return 0, fmt.Errorf("piece %d of the bundle begins at byte 0x%x, inside the one before, which ends at 0x%x", i, uint64(p.Offset), end)
		}
		if p.Offset > math.MaxInt64-p.Content.Len() {
			return 0, errors.New("the bundle is too large")
		}
		end = p.end()
	}
	return end, nil
}

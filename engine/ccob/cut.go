package ccob

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
)

// Frames selects how the raw bytes are divided into zstd frames. A frame can be
// decoded separately but cannot reference data in other frames, and entries for
// related processors are very similar.
type Frames int

const (
	// FramesAuto makes one frame for a small bundle. For a large bundle, it makes a frame
	// for each run of entries of one family of processors (gfx6 to gfx9, gfx10, gfx11 and
	// later), and divides the run in two if both halves are large. Entries within LLVM's
	// window of 128 MiB stay in one frame if the entries of a family are not adjacent, if
	// families have much in common, and at level Small.
	FramesAuto Frames = iota
	// FramesEntry makes a frame for every entry: the finest random access, at the
	// largest size.
	FramesEntry
	// FramesOne makes one frame and no index, as LLVM does.
	FramesOne
)

// Limits of FramesAuto. Cuts between families mostly cost 0.2 to 2.5 % in size, and the
// frames are still smaller than the one that libzstd makes at LLVM's default level.
// This does not hold for families with much in common, see alike. Beyond 128 MiB,
// LLVM's window, a cut loses no matches that LLVM finds.
const (
	autoFrom       = 16 << 20  // smallest raw size that is divided
	autoLeast      = 4 << 20   // the smallest frame it makes
	autoLeastSmall = 128 << 20 // the same at level Small
)

// halfLeast is the smallest half into which FramesAuto divides a family. Tests
// change it.
var halfLeast int64 = 256 << 20

// cut returns the pieces of each frame. A frame contains the raw bytes from its
// first piece to the first piece of the next frame.
func cut(ctx context.Context, b *budget.Budget, pieces []content.Part, how Frames, level Level) ([][]content.Part, error) {
	whole := [][]content.Part{pieces}
	least := int64(0)
	if how == FramesAuto {
		least = autoLeast
		if level != Fast {
			least = autoLeastSmall
		}
	}
	if how == FramesOne || len(pieces) < 2 || how == FramesAuto && pieces[len(pieces)-1].End()-pieces[0].Offset < max(least, autoFrom) {
		return whole, nil
	}
	var list [][]content.Part
	start := 0
	for i := 1; i < len(pieces); i++ {
		// A frame without content is useless, so do not cut before empty pieces.
		if pieces[i].Content.Len() == 0 || pieces[start].ID != "" && how == FramesAuto && !cutsHere(pieces, start, i, least) {
			continue
		}
		list = append(list, pieces[start:i])
		start = i
	}
	list = append(list, pieces[start:])
	if how == FramesEntry {
		return list, nil
	}
	if least < autoLeastSmall {
		var err error
		if list, err = joinAlike(ctx, b, joinFamilies(list)); err != nil {
			return nil, err
		}
	}
	var halved [][]content.Part
	for _, run := range list {
		halved = append(halved, halves(run)...)
	}
	if len(halved) == 2 && halved[0][0].ID == "" {
		return whole, nil // the header does not require a separate frame
	}
	return halved, nil
}

// halves divides a run of entries of half a gigabyte or more near the middle, and then the
// halves. Otherwise the time and memory for decoding the last entry would grow with the
// size of all entries.
func halves(run []content.Part) [][]content.Part {
	start, end := run[0].Offset, run[len(run)-1].End()
	middle, most := 0, halfLeast-1
	for i := 1; i < len(run); i++ {
		if half := min(run[i].Offset-start, end-run[i].Offset); half > most && run[i].Content.Len() > 0 {
			middle, most = i, half
		}
	}
	if middle == 0 {
		return [][]content.Part{run}
	}
	return append(halves(run[:middle]), halves(run[middle:])...)
}

// cutsHere reports whether FramesAuto begins a frame with piece i, if the previous frame
// begins with piece start.
func cutsHere(pieces []content.Part, start, i int, least int64) bool {
	return Family(pieces[i].ID) != Family(pieces[i-1].ID) && pieces[i].Offset-pieces[start].Offset >= least
}

// joinFamilies removes cuts between entries of one family that are within LLVM's window
// of each other.
func joinFamilies(list [][]content.Part) [][]content.Part {
	type place struct {
		frame  int
		offset int64
	}
	last := make(map[string]place)
	joined := make([]bool, len(list)) // joined to the previous frame
	for i, run := range list {
		for _, p := range run {
			if p.Content.Len() == 0 || p.ID == "" {
				continue
			}
			family := Family(p.ID)
			if at, ok := last[family]; ok && p.Offset-at.offset < autoLeastSmall {
				for k := i; k > at.frame; k-- {
					joined[k] = true
				}
			}
			last[family] = place{i, p.Offset}
		}
	}
	var frames [][]content.Part
	for i, run := range list {
		if joined[i] {
			n := len(frames) - 1
			frames[n] = append(slices.Clip(frames[n]), run...)
		} else {
			frames = append(frames, run)
		}
	}
	return frames
}

// joinAlike removes cuts that would cost too much, between frames that together are
// smaller than LLVM's window.
func joinAlike(ctx context.Context, b *budget.Budget, list [][]content.Part) ([][]content.Part, error) {
	var joined [][]content.Part
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[0][0].ID != "" && list[n][0].Offset-list[0][0].Offset < autoLeastSmall {
			n++
		}
		join, err := alike(ctx, b, list[:n])
		if err != nil {
			return nil, err
		}
		if join {
			joined = append(joined, slices.Concat(list[:n]...))
		} else {
			joined = append(joined, list[:n]...)
		}
		list = list[n:]
	}
	return joined, nil
}

// Family returns the [target.CodeFamily] of the processor in an entry ID; it is empty for
// targets other than AMD GPUs. Entries of a family belong in one part.
func Family(id string) string {
	at := strings.Index(id, "gfx")
	if at < 0 {
		return ""
	}
	processor, _, _ := strings.Cut(id[at:], ":")
	return target.CodeFamily(processor)
}

// checkPieces reports an error for pieces that are out of order, and returns
// the raw size.
func checkPieces(pieces []content.Part) (int64, error) {
	end := int64(0)
	for i, p := range pieces {
		if p.Offset < end {
			return 0, fmt.Errorf("piece %d of the bundle begins at byte 0x%x, inside the previous one, which ends at 0x%x", i, uint64(p.Offset), end)
		}
		if p.Offset > math.MaxInt64-p.Content.Len() {
			return 0, errors.New("the bundle is too large")
		}
		end = p.End()
	}
	return end, nil
}

package longzstd

import (
	"bytes"

	"github.com/klauspost/compress/huff0"
)

// mark is the magic of a compressed bundle. Programs scan for it to find the next bundle in a
// section, so it occurs in no frame. Tests change it.
var mark = []byte("CCOB")

// markSpan is how many bytes before a position can be part of a mark that ends after it.
const markSpan = 3

// storedMost is the size below which a piece that keeps forming the mark is stored. The header of a
// stored block of fewer bytes has no byte of the mark: its type is 0, and bits 1 and 2 of 'C', 'O'
// and 'B' are not; its other bytes are 0 or 1.
const storedMost = 64

// marked reports whether dst has the mark in or across what was appended at start.
func marked(dst []byte, start int) bool {
	return bytes.Contains(dst[max(0, start-markSpan):], mark)
}

// appendPiece appends one block, or several where its parts differ enough or where the mark
// would occur in one. dst has what lies in front of the block: three bytes are enough.
func (w *blockWriter) appendPiece(dst, src []byte, b *block) []byte {
	start, reps := len(dst), w.reps
	dst = w.codePiece(dst, src, b)
	if !marked(dst, start) {
		return dst
	}
	// The decoder does not see what was just coded.
	w.reps, w.prev = reps, [3]*fseTable{}
	w.huff = huff0.Scratch{Out: w.huff.Out}
	dst = dst[:start]
	if b.end-b.start < storedMost {
		return appendStored(dst, src[b.start:b.end], b.last)
	}
	// Halves have other statistics, and so other bits. What is stored as it is remains the same,
	// until one of the cuts goes through the mark.
	first, rest := b.halves()
	return w.appendPiece(w.appendPiece(dst, src, &first), src, &rest)
}

// appendStored appends fewer than storedMost bytes as they are, cut in each mark.
func appendStored(dst, data []byte, last bool) []byte {
	for {
		n := len(data)
		if i := bytes.Index(data, mark); i >= 0 {
			n = i + len(mark)/2
		}
		dst = appendBlockHeader(dst, rawBlock, n, last && n == len(data))
		dst = append(dst, data[:n]...)
		if data = data[n:]; len(data) == 0 {
			return dst
		}
	}
}

// halves cuts a block of storedMost bytes or more near its middle.
func (b *block) halves() (first, rest block) {
	const least = 8 // bytes of each part of a match that is cut
	at := b.start + (b.end-b.start)/2
	first, rest = block{start: b.start, end: at}, block{start: at, end: b.end, last: b.last}
	pos := b.start
	for i, s := range b.seqs {
		match := pos + int(s.litLen)
		end := match + int(s.matchLen)
		if end <= at {
			pos = end
			continue
		}
		first.seqs = b.seqs[:i:i]
		switch {
		case at <= match:
			rest.seqs = append(rest.seqs, sequence{uint32(match - at), s.matchLen, s.offset})
			rest.seqs = append(rest.seqs, b.seqs[i+1:]...)
		case at-match < least:
			first.end, rest.start = match, match
			rest.seqs = append(rest.seqs, sequence{0, s.matchLen, s.offset})
			rest.seqs = append(rest.seqs, b.seqs[i+1:]...)
		case end-at < least:
			first.seqs = b.seqs[: i+1 : i+1]
			first.end, rest.start = end, end
			rest.seqs = b.seqs[i+1:]
		default:
			first.seqs = append(first.seqs, sequence{s.litLen, uint32(at - match), s.offset})
			rest.seqs = append(rest.seqs, sequence{0, uint32(end - at), s.offset})
			rest.seqs = append(rest.seqs, b.seqs[i+1:]...)
		}
		return first, rest
	}
	first.seqs = b.seqs
	return first, rest
}

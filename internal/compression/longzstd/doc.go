// Package longzstd is a zstd encoder (RFC 8878) for bundles of GPU code objects: large
// inputs whose parts, one for each architecture, repeat each other with small changes,
// megabytes apart.
//
// It writes standard frames that libzstd, LLVM and github.com/klauspost/compress
// decode. It reads its input in place, so that a mapped file is not copied, and
// matches reach 2 GiB back.
//
// # Design
//
// Encoding has two stages, which may run on two cores. The parser cuts the source into
// blocks of 128 KiB and finds their sequences. The block writer codes each block. The
// parser gets no information from the block writer, so that the bytes are the same on one
// core and on two.
//
// The parser searches in this order:
//
//   - The last three distances. Code for one architecture differs from that for the next
//     by a register here and an opcode there, so that most matches continue at the same
//     distance after one to four changed bytes, or at one of the two distances before. All
//     three are tried directly after a match and after one literal, the last one also after
//     two, for matches of at least 3 bytes. This requires no table and no access to distant
//     memory, and reduces the size by 8%.
//   - 8 bytes at recent positions. The table has positions modulo 64 MiB and six bits of
//     the hash, which exclude nearly all false candidates without an access to the source:
//     these accesses take most of the time, not the arithmetic.
//   - 32 bytes at all sampled positions, those whose hash has six zero bits. The content
//     selects them, so that equal content is sampled at equal positions. Long matches need
//     no pass of their own: the parser skips what a match covers, which is faster than
//     hashing everything where matches cover most of a bundle.
//   - 5 bytes at recent positions, if nothing else matches.
//
// After 64 bytes without a match, positions are also sampled in a way that examines eight of
// them at once. After 256 or 512 bytes without a match, the data is noise, such as compressed
// debug sections: the steps of the parser grow, and between them it only samples in this way, to
// find noise that occurred before.
//
// The block writer ends blocks early where statistics change. It halves a block repeatedly
// and compares the size of the halves with tables of their own to the size of the whole. This
// reduces code by 1% and debug information by 4%, and takes little time, because it uses
// counts. Long runs of literals become blocks of their own. Literals are coded by klauspost's
// huff0. For sequences, the block writer selects the cheapest of predefined, repeated,
// single-symbol and new tables by computed cost.
//
// README.md has measurements.
package longzstd

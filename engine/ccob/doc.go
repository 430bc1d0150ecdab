// Package ccob reads and writes compressed bundles: the CCOB container that
// clang-offload-bundler -compress writes for a plain bundle.
//
// # Container
//
// All numbers are little endian. Every version begins with
//
//	0  "CCOB"
//	4  u16 version
//	6  u16 method: 0 zlib, 1 zstd
//
// and continues with
//
//	version 1: 8 u32 raw size, 12 u64 hash; data at 20
//	version 2: 8 u32 file size, 12 u32 raw size, 16 u64 hash; data at 24
//	version 3: 8 u64 file size, 16 u64 raw size, 24 u64 hash; data at 32
//
// The raw bytes are the decompressed data, a plain bundle. The hash is
// the first 8 bytes of their MD5 sum. The file size includes header and data.
// Version 1 has no file size: its data ends with the zstd or zlib stream. The
// data can consist of several zstd frames, with skippable frames anywhere.
//
// # Frames
//
// [Encode] divides the raw bytes into zstd frames at the starts of entries (see
// [Frames]). Every frame has its content size in its header. A reader therefore finds
// the place of each frame from the frame headers, and decodes one frame to read one
// entry. The first of several frames contains only the header of the plain
// bundle: a listing reads the first few hundred bytes of the file.
//
// # The magic
//
// Programs that look for the next bundle in a section scan for "CCOB". In the output of
// [Encode] and [Assemble], these bytes occur only at the start: the encoder encodes a block
// differently if they would occur in it, and an index contains none of these bytes. Two fields of
// the header cannot be changed, the raw size and the hash; they contain the bytes in one bundle
// in a billion.
//
// # Index
//
// An index is a skippable frame at the end of the data, which other readers skip. It
// follows several frames, or a single frame of 1 MiB or more, unless that compressed to
// almost nothing or hardly at all. The file size includes it:
//
//	0  u32 0x184D2A5B, u32 size of the rest
//	8  number 2: the version of the index
//	   number n
//	   n records: number of zero bytes before, number size, sum of these raw bytes
//	   number of zero bytes after the last
//	   sum: the hash of the CCOB header, 0 in a part (see EncodePart)
//	   sum of the bytes from the version up to here
//	   5 bytes: size of the whole frame
//	   8 bytes: D3 A9 E4 B7 8E F1 CA 95
//
// A number has 6 bits in each byte, the lowest first; bit 6 of a byte is set if another byte
// follows. A sum has 7 bits in each of ten bytes: an XXH64, or the hash. The size has 7 bits in
// each byte. Bit 7 of all these bytes is set. Version 1 of the index is also read.
//
// The records are the non-empty pieces of the raw bytes in ascending order: the
// plain bundle's header and its entries. Bytes between them are zero. MD5 runs
// at less than 1 GB/s and requires all bytes in order; with the records, any
// range can be checked separately at ten times that speed.
//
// The index is used only for checks. The offsets of frames and entries come from
// the frames and the plain bundle, so a damaged or forged index can make an
// extraction fail but cannot change its bytes. An index that contradicts itself
// or the sizes of the bundle is ignored.
//
// # Damage
//
// A frame in a bundle without an index has zstd's checksum. A Reader checks all data that it
// returns from a bundle written by Encode: with the index, with the checksums of the frames, which
// are then decoded to their ends, or with the hash of the header, which requires all frames. It
// uses the hash for bundles of at most 1 MiB and for those that have lost their index. A listing of
// a single frame of more than 64 MiB without an index, as written with FramesOne, is not checked
// before an entry is read. Bundles written by LLVM, one frame without a checksum, are checked with
// their hash up to 1 MiB; many of them, see HashProof, if their last block is decoded.
package ccob

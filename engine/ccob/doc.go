// Package ccob reads and writes compressed bundles: the CCOB container that
// clang-offload-bundler -compress makes of a plain bundle.
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
// After several frames, or one of a MiB or more that compressed to something between next
// to nothing and next to all of it, comes inside the file size a
// skippable frame that other readers pass over:
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
// A number has 6 bits in each byte, the lowest first; bit 6 of a byte says that another byte
// follows. A sum has 7 bits in each of ten bytes: an XXH64, or the hash. The size has 7 bits in each byte.
// Bit 7 of all these bytes is set. Version 1 of the index is read, too.
//
// The records are the non-empty pieces of the raw bytes in ascending order,
// the plain bundle's header and its entries; bytes between them are zero. MD5
// runs at less than a GB/s and needs all bytes in order; the records let any
// range be checked on its own at ten times that speed.
//
// The index finds nothing, it only checks. Where frames and entries lie is read
// from the frames and the plain bundle, so an index, damaged or forged, can make
// an extraction fail but cannot change its bytes. One that contradicts itself or
// the sizes of the bundle is no index: the bundle is then read like one
// without.
//
// # Damage
//
// A frame that has no index with it has zstd's checksum. What a Reader returns of a
// bundle that Encode wrote was checked: by the index, by all checksums of the frames that it is in,
// which are then decoded whole, or by the hash of the header, which takes all frames. The last is done
// for bundles of at most a MiB, and for those that have lost their index. A listing of a single frame of more than
// 64 MiB without index, which FramesOne makes, is not checked before an entry is read. Bundles of LLVM, one frame
// without a checksum, are checked by their hash up to a MiB.
package ccob

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
// and goes on with
//
//	version 1: 8 u32 raw size, 12 u64 hash; data at 20
//	version 2: 8 u32 file size, 12 u32 raw size, 16 u64 hash; data at 24
//	version 3: 8 u64 file size, 16 u64 raw size, 24 u64 hash; data at 32
//
// The raw bytes are what the data decompresses to, a plain bundle. The hash is
// the first 8 bytes of their MD5 sum. The file size counts header and data;
// version 1 has none: its data ends where the zstd or zlib stream ends. The
// data may be several zstd frames, with skippable frames anywhere.
//
// # Frames
//
// [Encode] cuts the raw bytes into zstd frames at the starts of entries (see
// [Frames]). Every frame states its content size, so the place of each in the
// raw bytes follows from the frame headers alone, and one entry is had by
// decoding its frame. The first frame of several holds the header of the plain
// bundle and nothing else: a listing reads the first few hundred bytes of the
// file.
//
// # Index
//
// Behind several frames, or one of a MiB or more that compressed to something between next
// to nothing and next to all of it, comes inside the file size a
// skippable frame that other readers pass over:
//
//	0  u32 0x184D2A5B, u32 size of the rest
//	8  n records: u64 raw offset, u64 size, u64 XXH64 of these raw bytes
//	   u64 raw size of all frames
//	   u64 hash of the CCOB header, 0 in a part (see EncodePart)
//	   u32 n, u32 version of the index: 1
//	   u64 XXH64 of the bytes from the first record up to here
//	   "CCOBIDX\x00"
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
package ccob

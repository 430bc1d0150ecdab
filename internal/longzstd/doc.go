// Package longzstd is a zstd encoder (RFC 8878) for bundles of GPU code objects:
// large inputs whose parts, one per architecture, say almost the same again and
// again, megabytes apart and with small changes everywhere.
//
// It writes standard frames that libzstd, LLVM and github.com/klauspost/compress
// decode. It reads its input in place, so that a mapped file is neither copied nor
// held in memory twice, and matches reach 2 GiB back.
//
// # Design
//
// Encoding has two stages, which may run on two cores. The parser walks the source,
// cuts it into blocks of 128 KiB and finds their sequences. The block writer turns
// each into its coded form. The writer does not tell the parser anything, so the
// bytes are the same on one core and on two.
//
// The parser looks for, in this order:
//
//   - The last three offsets again. Code for one architecture differs from that for
//     the next by a register here and an opcode there, so most matches go on at the
//     same distance after one to four changed bytes, or at one of the two distances
//     before. All three are tried right behind a match and behind one literal, the
//     last also behind two, down to 3 bytes. This costs no table and no far memory
//     access, and is worth 8% of the size.
//   - 8 bytes that were seen lately. The table keeps positions modulo 64 MiB and six
//     bits of the hash, which tell nearly all false candidates without a look at the
//     source: those looks, not the arithmetic, are what takes time.
//   - 32 bytes that were seen ever. Positions whose hash has six zero bits are
//     sampled; as the content chooses them, the same content is sampled every time.
//     There is no pass of its own for long matches: what a match covers is skipped,
//     and with most of a bundle covered that is faster than hashing everything.
//   - 5 bytes that were seen lately, if there is nothing else.
//
// Where nothing matches for 64 bytes, positions are sampled in another way, too, which looks at
// eight of them at once. Where nothing matches for 256 or 512 bytes the data is noise, such as
// compressed debug sections: the parser steps faster and faster and in between only samples
// in this way, to notice noise it has seen before.
//
// The block writer ends blocks early where statistics change. It halves a block
// again and again and compares what the halves would take with tables of their own
// to what the whole would take: worth 1% of code and 4% of debug information, and
// cheap, as it works on counts. Long runs of literals become blocks of their own.
// Literals are coded by klauspost's huff0; the tables for sequences are ours, each
// the cheapest of predefined, repeated, single-symbol and new by computed cost.
//
// README.md says what was measured.
package longzstd

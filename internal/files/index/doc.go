// Package index finds the pack of a chunk. It is a local index of derived data.
//
// Every fact in it is also in the footer of a pack, so it may be lost at any time,
// in whole or in part, and is filled again by Add. Its answers are always correct:
// they are compared by the full hash, and data that is damaged, torn, or of
// another version counts as never added. After Drop has returned, a dropped pack
// is not found again, even after a power failure.
//
// An organisation's folder holds sorted, immutable runs and a small state file,
// which lists the valid runs and the dropped packs. New chunks are collected in a
// table in memory. Full tables become runs, and four runs of similar size are
// merged into one without the chunks of dropped packs. The memory holds a filter
// (one byte per chunk) and the first hash of each block (a tenth of a byte) of
// each run; the rest is on disk: about 54 bytes per chunk and the names of the
// packs.
//
// Only Drop waits for the disk. A process that ends without Close loses the newest
// chunks, at most about ten thousand; Has and Packs report the packs that are
// left.
package index

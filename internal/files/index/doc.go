// Package index answers: in which pack does a chunk rest?
//
// It is derived, local data: every fact in it also stands in the footer of a
// pack, so it may be lost at any time, whole or in part, and is filled again by
// Add. It never lies, though: an answer is compared by the full hash, what is
// damaged, torn or of another version counts as never added, and a dropped pack
// is not found again once Drop has returned, also after a loss of power.
//
// An organisation's folder holds sorted, immutable runs and a small file of
// state, which says which runs count and which packs are dropped. New chunks
// gather in a table in memory; full tables become runs, and four runs of about
// one size become one, without the chunks of dropped packs. Of each run memory
// holds a filter (a byte a chunk) and the first hash of each block (a tenth of
// a byte), the rest stays on the disk: some 54 bytes a chunk and the packs'
// names.
//
// Nothing waits for the disk but Drop. A process that ends without Close loses
// the newest chunks, some ten thousand at most; Has and Packs tell what is
// missing.
package index

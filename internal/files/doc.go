// Package files stores trees of files as immutable, deduplicated snapshots.
//
// A snapshot consists of chunks, pages, packs, and a root. A file of up to 1 MiB is
// one chunk (an empty file has none); larger files are cut by their content. A
// chunk is named by its SHA-256 and stored in a pack as a raw deflate segment that
// ends on a byte boundary. So the tar.gz of a snapshot is a concatenation of
// segments: nothing is compressed again, the length is known beforehand, and any
// range is found by arithmetic. Pages list the entries in path order with the
// places of their chunks. Pages are stored in packs, too. The end of a page depends
// on the paths of its entries, so similar snapshots have equal pages and share
// them. The root, an object of its own, lists the pages. docs/content-format.md
// describes every byte.
//
// The digest of a snapshot covers the properties that users see (paths, kinds,
// modes, times, sizes, targets, contents) and nothing of the storage. So equal
// trees of an organisation share one root. A commit writes the chunks that are not
// stored yet and the pages that the parent lacks, then the root. A crash in between
// leaves unreferenced packs, never an incomplete snapshot.
//
// Garbage collection has two steps, so that commits need not wait: one collection
// marks unreferenced objects, and a later one deletes them. Commits do not refer
// to marked objects, and a snapshot is published only in the epoch of collection
// in which it was stored or validated. Packs with a small referenced part are
// compacted: stored under another key with the old offsets, so that manifests do
// not change.
//
// Paths are ordered as a walk visits them: a folder, its content, its next
// sibling; siblings by the bytes of their names.
//
// The subpackages, from the encodings upwards: format, spool, pack, manifest, gc,
// commit; then scan (folders and archives), exchange (chunks and entries), archive
// (downloads), diff, check, and checkout. Package files is the facade that other
// packages import; index is an implementation of the chunk index.
package files

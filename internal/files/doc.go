// Package files answers: how do files become a version and come back?
//
// A tree of files is stored as chunks, pages, packs and one root. Files up to
// 1 MiB are one chunk, larger ones are cut by their content. A chunk is named
// by its SHA-256 and rests in a pack as a raw deflate segment that ends on a
// byte, so that the tar.gz of a version is made by laying segments end to end:
// nothing is compressed again, the length is known beforehand and any range is
// found by arithmetic. Pages list the entries in path order and say where each
// chunk lies; they end where the paths say so, rest in packs as well, and are
// shared by the versions that have them in common. The root, a small object of
// its own, lists the pages. docs/content-format.md has every byte.
//
// The digest of a tree covers what its user sees (paths, kinds, modes, times,
// sizes, targets, contents) and nothing of how it is stored, so equal trees of
// one organisation share one root. A commit writes the chunks and pages that
// the parent version lacks, then the root; a crash between leaves packs that
// nothing refers to, never a version that lacks a byte.
//
// What nothing names is collected in two steps, so that commits need not wait:
// condemned by one collection, deleted by the next. A commit knows what is
// condemned and builds upon none of it, and its tree is named only if no
// collection has begun since. Packs that are mostly dead are stored anew under
// another key, with the old offsets, so that nothing that names them changes.
//
// Path order is the order of a walk: a folder, what is in it, its next
// sibling; siblings by the bytes of their names.
package files

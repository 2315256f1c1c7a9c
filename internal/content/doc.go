// Package content answers: how do files become a version and come back?
//
// A tree of files is stored as chunks, packs and one manifest. Files up to
// 1 MiB are one chunk, larger ones are cut by their content. A chunk is named
// by its SHA-256 and rests in a pack as a raw deflate segment that ends on a
// byte, so that the tar.gz of a version is made by laying segments end to end:
// nothing is compressed again, the length is known beforehand and any range is
// found by arithmetic. The manifest lists the entries in path order and says
// where each chunk lies.
//
// The digest of a tree covers what its user sees (paths, kinds, modes, times,
// sizes, targets, contents) and nothing of how it is stored, so equal trees of
// one organisation share one manifest. A commit writes the chunks that the
// parent version lacks, then the manifest; a crash between leaves packs that
// nothing refers to, never a version that lacks a byte.
//
// Path order is the order of a walk: a folder, what is in it, its next
// sibling; siblings by the bytes of their names.
package content

// Package index finds the pack of a chunk. It is a local index of derived data.
//
// Every fact in it is also in the footer of a pack, so it may be lost at any time,
// in whole or in part, and is filled again by Add. Its answers are always correct:
// they are compared by the full hash, and data that is damaged, torn, or of
// another version counts as never added. After Drop has returned, a dropped pack
// is not found again, even after a power failure.
//
// An organisation's folder holds one log with a section for each pack: its name
// and a record of 52 bytes for each chunk. The memory holds a hash table with
// about 20 bytes per chunk and the names of the packs. It is built from the log
// when an organisation is used for the first time, and freed when too many others
// were used since. Drop inverts the checksum of a section in place; when most of
// the log is dropped, it is written again without those sections.
//
// Only Drop waits for the disk. After a power failure the newest packs may be
// missing; Has and Packs report the packs that are left.
package index

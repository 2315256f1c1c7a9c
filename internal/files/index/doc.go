// Package index finds the pack of a chunk. It is a local index of derived data.
//
// All data of the index is also in the footers of packs. So the index may be lost at
// any time, in whole or in part, and Add fills it again. Its results are always
// correct: chunks are compared by the full hash, and data that is damaged, incomplete,
// or of another version counts as never added. After Drop has returned, a dropped
// pack is not found again, even after a power failure.
//
// An organisation's folder holds one log with a section for each pack: the name of
// the pack and a record of 52 bytes for each chunk. In memory, the index holds a hash
// table with about 20 bytes per chunk, and the names of the packs. The table of an
// organisation is built from the log at the first use, and freed after too many other
// organisations were used. Drop inverts the checksum of a section in place. If at
// least half of a log and at least 1 MiB is dropped, the log is written again without
// the dropped sections.
//
// Only Drop waits until its changes are on the disk. After a power failure the newest
// packs may be missing; Has and Packs report the packs that are left.
package index

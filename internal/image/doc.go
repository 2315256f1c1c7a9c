// Package image provides root file systems from OCI images.
//
// A Store pulls OCI images from registries and unpacks each into a folder that
// all sandboxes with the image share, read-only. Its folder
//
//	roots/<digest>/rootfs       a root file system; complete
//	roots/<digest>/image.json   metadata of the image; the file's time is its last use
//	work/…                      files that are being written or removed; emptied by Open
//	names.json                  the last known digest of each reference
//
// must be used by one process at a time. Roots are added and removed by one
// rename, so a killed process leaves incomplete files only in work. Unpacking
// does not sync. Until a root is synced, its metadata contains the machine's
// boot ID; after a reboot it is unpacked again.
//
// Layers are untrusted. Each is verified against its digest before it is
// unpacked, and unpacking cannot write outside the root:
//
//   - Names are cleaned and interpreted relative to the root. Names that lead out
//     of it are refused.
//   - The last element of a name is never followed; an existing entry is replaced.
//     Symbolic links in other elements are resolved with the root as "/", as in a
//     sandbox, and missing folders on the way are created.
//   - Hard links can only refer to files of the root.
//   - Devices, pipes, and sockets are skipped. Owners, setuid and setgid bits, and
//     extended attributes are dropped. The owner can always access folders.
//   - Bytes, entries, path lengths, and the expansion of layers are limited.
package image

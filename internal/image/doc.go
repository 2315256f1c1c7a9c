// Package image provides root file systems from OCI images.
//
// A Store pulls OCI images from registries and unpacks each image into a folder that
// all sandboxes with the image share, read-only. The store's folder contains
//
//	roots/<digest>/rootfs       a complete root file system
//	roots/<digest>/image.json   metadata of the image; its modification time is the image's last use
//	work/…                      files that are being written or removed; emptied by Open
//	names.json                  the last known digest of each reference
//
// Only one process may use the folder at a time. Each root is added and removed by
// a single rename, so a killed process leaves incomplete files only in work.
// Unpacking does not sync files to disk. Until Collect syncs a root, the root's
// metadata contains the machine's boot ID, if it is known; a root with the boot ID
// of an earlier boot is not used, and the image is pulled again.
//
// Layers are untrusted. Each layer is verified against its digest before it is
// unpacked, and unpacking cannot write outside the root:
//
//   - Names are cleaned and interpreted relative to the root. Names that lead out
//     of the root are refused.
//   - If the last element of a name is a symbolic link, it is replaced, not followed.
//     Symbolic links in other elements are resolved with the root as "/", as in a
//     sandbox. Missing parent folders are created.
//   - Hard links can only refer to files of the root.
//   - Devices, pipes, and sockets are not created. Owners, setuid and setgid bits, and
//     extended attributes are dropped. Folders are always accessible to their owner.
//   - The number of bytes and entries, the length of paths, and the expanded size of
//     layers are limited.
package image

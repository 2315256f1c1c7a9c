// Package image answers: where does a sandbox's root come from?
//
// A Store pulls OCI images from registries and unpacks each once into a folder
// that all sandboxes of the image share, read-only. The folder
//
//	roots/<digest>/rootfs       a root, complete since the rename that put it here
//	roots/<digest>/image.json   what else the image says, and when it was used last
//	work/…                      what is being unpacked or removed; cleared by Open
//	names.json                  which reference was which image when last asked
//
// belongs to one process at a time. A root appears by one rename and goes by
// one, so a process that is killed leaves nothing half done but in work.
// Nothing is synced while unpacking: a root that may not have reached the disk
// when the machine went down is known by its boot and unpacked again.
//
// Layers are foreign bytes. Each is compared with its digest before it is
// unpacked, and unpacking keeps inside the root whatever a layer holds:
//
//   - Names are cleaned and taken from the root; one that leads out is refused.
//   - The last element of a name is never followed: it replaces what is there.
//     A symbolic link in front of it is resolved as if the root were "/", the
//     way it will look inside, and missing folders on that way are made.
//   - Hard links join files of the root only.
//   - Devices, pipes and sockets are left out. Owners, set-uid and set-gid bits
//     and extended attributes are dropped; folders always let their owner in.
//   - Bytes, entries, path lengths and the expansion of layers are bounded.
package image

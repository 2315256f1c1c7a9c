// Package overlay mounts overlay file systems, so that changes of an agent are
// stored in a separate folder.
//
// The kernel stores the marks of an overlay in user extended attributes (mount
// option "userxattr"), with and without root privileges, so that layers and changes
// have the same form everywhere. The kernel hides these attributes from processes
// that use the mount. It does not sync changes (mount option "volatile"): the same
// server reads and stores them elsewhere, or discards them. A rename of a folder
// that is in a layer fails with EXDEV, as between two file systems; programs then
// copy.
package overlay

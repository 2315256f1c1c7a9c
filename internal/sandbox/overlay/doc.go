// Package overlay mounts overlay file systems, so that changes of an agent are
// stored in a separate folder.
//
// Its marks are kept in user extended attributes ("userxattr"), with and
// without root privileges, so layers and changes look the same everywhere. The
// kernel hides these attributes from processes that use the mount. Nothing is
// synced ("volatile"): changes are discarded, or read and stored elsewhere by
// the same server. A rename of a folder that is in a layer fails with EXDEV, as
// between two file systems; programs then copy.
package overlay

// Package overlay answers: how are folders laid over each other, so that what an
// agent changes lies apart?
//
// By the kernel's overlay file system, whose marks are kept in the attributes
// that every user may have ("userxattr"), with root's rights and without: so the
// layers and what was changed look the same everywhere. The kernel keeps these
// attributes from whoever works in the mount. Nothing is synced ("volatile"):
// what was changed is thrown away, or read and stored elsewhere, by the same
// server. A rename of a folder that a layer holds fails with EXDEV, as between
// two file systems; programs copy then.
package overlay

package manifest

// Ref identifies a stored snapshot of an organisation.
type Ref struct {
	Digest string // SHA-256 over the logical manifest, 64 hexadecimal digits
	Size   int64  // sum of the file sizes in bytes
	Files  int64  // number of files, not counting folders and links
	// Epoch is the epoch of garbage collection in which the commit began or the
	// snapshot was last validated; 0 if files.Options.Marks is nil. Publish uses it.
	Epoch int64
}

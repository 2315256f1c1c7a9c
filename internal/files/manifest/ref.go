package manifest

// Ref names a stored tree of files inside one organisation.
type Ref struct {
	Digest string // SHA-256 over the logical manifest, 64 hexadecimal digits
	Size   int64  // sum of the sizes of the files, bytes
	Files  int64  // files; folders and links do not count
	// Epoch is that of the collection under which the commit began, or was
	// renewed; 0 where Options.Marks is nil. It is no part of the tree's name.
	Epoch int64
}

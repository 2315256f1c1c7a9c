package format

// Format is the format of an archive.
type Format string

// Zip is a format for downloads only; the others can be uploaded as well.
const (
	TarGzip Format = "tar.gz"
	Tar     Format = "tar"
	TarZstd Format = "tar.zst"
	Zip     Format = "zip"
)

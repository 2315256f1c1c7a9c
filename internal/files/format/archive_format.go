package format

// Format is the format of an archive of a snapshot.
type Format string

// The archive formats. Zip is for downloads only.
const (
	TarGzip Format = "tar.gz"
	Tar     Format = "tar"
	TarZstd Format = "tar.zst"
	Zip     Format = "zip"
)

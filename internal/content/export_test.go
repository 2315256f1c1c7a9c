package content

import "time"

// Parts that are worth a test of their own.
var (
	AppendRuns   = appendRuns
	CombineCRC   = combineCRC
	ComparePaths = comparePaths
	Cut          = cut
	StreamEnd    = streamEnd
)

const (
	MinChunk = minChunk
	MaxChunk = maxChunk
	MaxPack  = maxPack
)

// TarHeader is the header of a file, or of a link where there is a target.
func TarHeader(path, target string, size int64, mtime time.Time) []byte {
	e := &entry{path: path, kind: file, mode: 0o640, size: size}
	if target != "" {
		e.kind, e.target = symlink, target
	}
	e.setTime(mtime)
	return appendHeader(nil, e)
}

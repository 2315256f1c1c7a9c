package files

import (
	"context"
	"strings"

	"github.com/stint-dev/stint"
)

// FilesUnder lists at most limit entries whose paths begin with prefix and
// follow the path after, as Files does. "dir/" lists what lies below dir.
// Nothing before the prefix is read.
func (l *Library) ListPrefix(ctx context.Context, org, digest, prefix, after string, limit int) (page []stint.FileEntry, more bool, err error) {
	m, err := l.manifest(ctx, org, digest)
	if err != nil {
		return nil, false, err
	}
	page = []stint.FileEntry{}
	if after == "" && prefix != "" { // the walk starts behind the path that it is given
		e, err := m.find(ctx, prefix)
		if err != nil {
			return nil, false, err
		}
		if e != nil {
			page = append(page, e.public())
		}
	}
	if after == "" || comparePaths(after, prefix) < 0 {
		after = prefix
	}
	for e, err := range m.from(ctx, after) {
		if err != nil {
			return nil, false, err
		}
		if !strings.HasPrefix(e.path, prefix) {
			break
		}
		if len(page) >= limit {
			return page, true, nil
		}
		page = append(page, e.public())
	}
	return page, false, nil
}

package files

import (
	"context"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/diff"
)

// DiffAll returns the changes of all pages of Diff.
func (l *Library) DiffAll(ctx context.Context, org, from, to string) ([]stint.FileChange, error) {
	all := []stint.FileChange{}
	for after, more := "", true; more; {
		page, m, err := l.Diff(ctx, org, from, to, after, 3)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if more = m; more {
			after = page[len(page)-1].Path
		}
	}
	return all, nil
}

const MaxRenames = diff.MaxRenames

// OccupyComparison waits for the slot of an organisation for text comparisons. The caller
// must call done to release the slot. If the wait times out, done does nothing.
func (l *Library) OccupyComparison(org string) (done func()) {
	if done, ok := l.Comparing.Acquire(context.Background(), org); ok {
		return done
	}
	return func() {}
}

package files

import (
	"context"

	"github.com/stint-dev/stint"
)

// Diff gathers all pages of changes.
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

const MaxRenames = maxRenames

// Comparing is as one who compares two texts for an organisation until done,
// or who has waited for that in vain.
func (l *Library) Comparing(org string) (done func()) {
	if done, ok := l.comparing.take(context.Background(), org); ok {
		return done
	}
	return func() {}
}

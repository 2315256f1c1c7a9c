package content

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
)

// CollectDerived deletes what was made of trees that are not among the live
// ones, and tells how many bytes that were. What goes too soon is made again.
func (l *Library) CollectDerived(ctx context.Context, org string, live iter.Seq2[string, error]) (freed int64, err error) {
	if err := checkOrg(org); err != nil {
		return 0, err
	}
	named := map[hash]struct{}{}
	for digest, err := range live {
		if err != nil {
			return 0, fmt.Errorf("reading what is named: %w", err)
		}
		var h hash
		if n, err := hex.Decode(h[:], []byte(digest)); err == nil && n == len(h) {
			named[h] = struct{}{}
		}
	}
	for _, prefix := range DerivedPrefixes(org) {
		for info, err := range l.blobs.List(ctx, prefix) {
			if err != nil {
				return freed, fmt.Errorf("listing what was made of trees: %w", err)
			}
			_, digest, ok := DerivedFrom(info.Key)
			var h hash
			if _, err := hex.Decode(h[:], []byte(digest)); !ok || err != nil {
				continue // none of ours
			}
			if _, keep := named[h]; keep {
				continue
			}
			if err := l.blobs.Delete(ctx, info.Key); err != nil {
				return freed, fmt.Errorf("deleting what was made of a tree: %w", err)
			}
			freed += info.Size
		}
	}
	return freed, nil
}

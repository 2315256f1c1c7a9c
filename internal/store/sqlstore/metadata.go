package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// filterMetadata adds the condition that the metadata of a run contains the pairs. The
// text of each pair is searched first, which is faster than decoding the metadata of every
// run, but also finds a pair within a value.
func (s *Store) filterMetadata(q *query, pairs map[string]string) {
	if len(pairs) == 0 {
		return
	}
	var found []string
	var values []any
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		found = append(found, s.d.Position+"(metadata, ?) > 0")
		values = append(values, strings.Trim(encodePairs(map[string]string{key: pairs[key]}), "{}"))
	}
	values = append(values, escapedPairs(pairs))
	q.and("case when "+strings.Join(found, " and ")+" then "+fmt.Sprintf(s.d.Contains, escapedMetadata, "?")+" else false end", values...)
}

// encodePairs returns the JSON of pairs as the column metadata contains it.
func encodePairs(pairs map[string]string) string {
	text, err := json.Marshal(pairs)
	if err != nil {
		panic("sqlstore: " + err.Error()) // strings can always be encoded
	}
	return string(text)
}

// PostgreSQL cannot decode U+0000 in JSON. controlEscaper and escapedMetadata replace it,
// in the same way as escape, in the text of a JSON object and in that of the column. Two
// objects are equal if and only if the replaced objects are.
const escapedMetadata = `replace(replace(metadata, '\u0001', '\u00011'), '\u0000', '\u00010')`

// escapedPairs returns the replaced JSON object of pairs.
func escapedPairs(pairs map[string]string) string {
	if pairs == nil {
		return "{}"
	}
	return controlEscaper.Replace(encodePairs(pairs))
}

var controlEscaper = strings.NewReplacer(`\u0001`, `\u00011`, `\u0000`, `\u00010`)

// Metadata returns the metadata of a run.
func (s *Store) Metadata(ctx context.Context, org, id string) (map[string]string, error) {
	return get(ctx, s, "reading the metadata of a run", func(r Row) (m map[string]string, err error) {
		return m, r.Scan(jsonOf{&m})
	}, `select metadata from runs where id = $1 and org_id = $2`, id, org)
}

// ChangeMetadata sets and removes members of a run's metadata.
func (s *Store) ChangeMetadata(ctx context.Context, org, id string, changes map[string]*string) (store.Run, error) {
	return change(ctx, s, "changing the metadata of a run", func(ctx context.Context, q Querier) (store.Run, error) {
		r, err := s.lockRun(ctx, q, id)
		if err == nil && r.OrgID != org {
			err = store.ErrNotFound
		}
		if err != nil {
			return r, err
		}
		changed := make(map[string]string, len(r.Metadata)+len(changes))
		maps.Copy(changed, r.Metadata)
		for key, value := range changes {
			if value == nil {
				delete(changed, key)
			} else {
				changed[key] = *value
			}
		}
		if len(changed) > stint.MaxMetadata {
			return r, stint.InvalidParam("metadata", "The run would have %d labels; 'metadata' may have %d members at most. Remove others by setting them to null.", len(changed), stint.MaxMetadata)
		}
		if !maps.Equal(changed, r.Metadata) {
			if _, err := exec(ctx, q, `update runs set metadata = $2 where id = $1`, id, asJSON(changed)); err != nil {
				return r, err
			}
		}
		r.Metadata = changed
		return r, readAttempts(ctx, q, &r)
	})
}

package sqlstore

import (
	"context"
	"slices"
)

// Step is a statement. Its text and arguments do not depend on the results of
// earlier statements, so that several can be sent in one round trip.
type Step struct {
	Query string
	Args  []any
	Row   func(Row) error   // called for each row of the result; nil if the statement returns no rows
	Done  func(int64) error // called with the number of returned or changed rows; may be nil
}

// Row is one row of a result.
type Row interface{ Scan(dest ...any) error }

// Pipeliner is a Querier that can send several steps in one round trip, and the last
// steps together with the commit.
type Pipeliner interface {
	Querier
	// Pipeline runs the steps in order and returns the first error. Later steps
	// may have run; they are rolled back with the transaction.
	Pipeline(ctx context.Context, steps []Step) error
	// AtEnd defers steps until the commit, so that their locks are held only
	// during the commit. No other step may depend on them.
	AtEnd(steps ...Step)
}

// run runs steps in order, in one round trip if the engine supports it. It skips steps
// without a query, which stand for statements that the engine does not need.
func run(ctx context.Context, q Querier, steps ...Step) error {
	steps = slices.DeleteFunc(steps, func(s Step) bool { return s.Query == "" })
	if len(steps) == 0 {
		return nil
	}
	if p, ok := q.(Pipeliner); ok {
		for i := range steps {
			steps[i].Args = clean(steps[i].Args)
		}
		return p.Pipeline(ctx, steps)
	}
	for _, s := range steps {
		if err := s.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// runAtEnd runs a step together with the commit if the engine supports it.
func runAtEnd(ctx context.Context, q Querier, s Step) error {
	if p, ok := q.(Pipeliner); ok {
		s.Args = clean(s.Args)
		p.AtEnd(s)
		return nil
	}
	return run(ctx, q, s)
}

func (s Step) run(ctx context.Context, q Querier) (err error) {
	var n int64
	if s.Row == nil {
		n, err = exec(ctx, q, s.Query, s.Args...)
	} else {
		var found []struct{}
		found, err = all(ctx, q, func(r Row) (struct{}, error) { return struct{}{}, s.Row(r) }, s.Query, s.Args...)
		n = int64(len(found))
	}
	if err == nil && s.Done != nil {
		err = s.Done(n)
	}
	return err
}

// step returns a step that may change any number of rows.
func step(query string, args ...any) Step { return Step{Query: query, Args: args} }

// lockRows returns a step that locks the rows of a select with a clause of the
// Dialect. It has no query if the clause is empty.
func lockRows(clause, query string, args ...any) Step {
	if clause == "" {
		return Step{}
	}
	return exists(new(bool), query+clause, args...)
}

// exists returns a step that sets *found to true if the statement returns a row, and to
// false otherwise.
func exists(found *bool, query string, args ...any) Step {
	return Step{Query: query, Args: args, Row: func(Row) error { return nil }, Done: func(n int64) error { *found = n > 0; return nil }}
}

// stepOne returns a step that must change a row. If it changes none, its error is
// missing.
func stepOne(missing error, query string, args ...any) Step {
	return Step{Query: query, Args: args, Done: func(n int64) error {
		if n == 0 {
			return missing
		}
		return nil
	}}
}

// into returns a step that scans the row of a statement into *v, and sets *found to
// whether there was a row.
func into[T any](v *T, found *bool, scan func(Row) (T, error), query string, args ...any) Step {
	return Step{
		Query: query, Args: args,
		Row:  func(r Row) (err error) { *v, err = scan(r); return err },
		Done: func(n int64) error { *found = n > 0; return nil },
	}
}

// collect returns a step that appends every row of a statement to list.
func collect[T any](list *[]T, scan func(Row) (T, error), query string, args ...any) Step {
	return Step{Query: query, Args: args, Row: func(r Row) error {
		v, err := scan(r)
		*list = append(*list, v)
		return err
	}}
}

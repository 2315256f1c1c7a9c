package sqlstore

import (
	"context"
)

// Step is a statement whose text and values do not depend on the results of
// those before it, so that several go to the database in one go.
type Step struct {
	Query string
	Args  []any
	Row   func(Row) error   // takes each row that it returns; nil when it returns none
	Done  func(int64) error // judges how many rows it returned or changed; may be nil
}

// Row is what a scanner reads one row of.
type Row interface{ Scan(dest ...any) error }

// Pipeliner is a Querier that may send steps together, and the last ones
// together with the commit.
type Pipeliner interface {
	Querier
	// Pipeline runs the steps in order and stops at the first error. Steps
	// after it may have run; they are undone with the transaction.
	Pipeline(ctx context.Context, steps []Step) error
	// AtEnd keeps steps that nothing depends on for the commit, so that the
	// locks that they take are held no longer than that.
	AtEnd(steps ...Step)
}

// run runs steps in order, in one go where the engine can.
func run(ctx context.Context, q Querier, steps ...Step) error {
	if len(steps) == 0 {
		return nil
	}
	for i := range steps {
		steps[i].Args = clean(steps[i].Args)
	}
	if p, ok := q.(Pipeliner); ok {
		return p.Pipeline(ctx, steps)
	}
	for _, s := range steps {
		if err := s.run(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// runAtEnd runs a step before the commit.
func runAtEnd(ctx context.Context, q Querier, s Step) error {
	if p, ok := q.(Pipeliner); ok {
		s.Args = clean(s.Args)
		p.AtEnd(s)
		return nil
	}
	return run(ctx, q, s)
}

func (s Step) run(ctx context.Context, q Querier) error {
	n, err := s.send(ctx, q)
	if err == nil && s.Done != nil {
		err = s.Done(n)
	}
	return err
}

func (s Step) send(ctx context.Context, q Querier) (n int64, err error) {
	if s.Row == nil {
		return exec(ctx, q, s.Query, s.Args...)
	}
	rows, err := queryRows(ctx, q, s.Query, s.Args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		if err := s.Row(rows); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

// step is a statement that may change any number of rows.
func step(query string, args ...any) Step { return Step{Query: query, Args: args} }

// stepOne is a statement that must change a row: missing is the error when it
// changes none.
func stepOne(missing error, query string, args ...any) Step {
	return Step{Query: query, Args: args, Done: func(n int64) error {
		if n == 0 {
			return missing
		}
		return nil
	}}
}

// into reads the row that a statement returns, if it returns one, and found
// tells whether it did.
func into[T any](v *T, found *bool, scan func(row) (T, error), query string, args ...any) Step {
	return Step{
		Query: query, Args: args,
		Row:  func(r Row) (err error) { *v, err = scan(r); return err },
		Done: func(n int64) error { *found = n > 0; return nil },
	}
}

// collect reads every row that a statement returns.
func collect[T any](list *[]T, scan func(row) (T, error), query string, args ...any) Step {
	return Step{Query: query, Args: args, Row: func(r Row) error {
		v, err := scan(r)
		*list = append(*list, v)
		return err
	}}
}

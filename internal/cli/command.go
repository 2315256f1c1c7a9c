package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/client"
)

// call converts a function to one for cobra. The function gets a client for the
// current account; its context ends when the user interrupts.
func (a *app) call(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return f(ctx, c, args)
	})
}

// listCommand returns the command "list".
func listCommand[T any](a *app, short, head string, list func(context.Context, *client.Client) iter.Seq2[T, error], row func(T) []string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: short, Args: exactly(), Aliases: []string{"ls"},
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			return printList(a, list(ctx, c), 0, head, row)
		}),
	}
}

// each returns a command that calls f for each argument and prints that the
// object with the returned ID was, for example, "removed". use is a command and
// its argument, such as "rm NAME...".
func (a *app) each(use, short, done string, f func(ctx context.Context, c *client.Client, arg string) (id string, err error)) *cobra.Command {
	_, word, _ := strings.Cut(use, " ")
	word, _, _ = strings.Cut(strings.TrimSuffix(word, "..."), "[")
	return &cobra.Command{
		Use: use, Short: short, Args: atLeast(word),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			for _, arg := range args {
				id, err := f(ctx, c, arg)
				if err == nil {
					err = a.printResult(map[string]any{"id": id, done: true}, "%s was %s.", id, done)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// printResult writes a value as JSON, or a message that is not a result.
func (a *app) printResult(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	a.note(format, args...)
	return nil
}

// printLine writes a value as JSON, or a line on standard output.
func (a *app) printLine(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintf(a.Stdout, format+"\n", args...)
	return err
}

// printList writes a list as JSON lines, or as a table. limit is the maximum
// number of items; 0 means all.
func printList[T any](a *app, items iter.Seq2[T, error], limit int, head string, row func(T) []string) error {
	w, n := newTable(a.Stdout), 0
	for item, err := range items {
		switch {
		case err != nil:
		case a.json:
			err = a.printJSON(item)
		default:
			if n == 0 {
				fmt.Fprintln(w, strings.ReplaceAll(head, " ", "\t"))
			}
			cells := row(item)
			for i := range cells {
				cells[i] = plain(cells[i])
			}
			_, err = fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		if err != nil {
			_ = w.Flush() // the first error matters
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return w.Flush()
}

// withoutErrors returns the elements of a list for printList.
func withoutErrors[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// printOne writes a value as JSON, or as a list of labels and texts. Empty
// texts are omitted.
func (a *app) printOne(v any, fields ...string) error {
	if a.json {
		return a.printJSON(v)
	}
	w := newTable(a.Stdout)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", fields[i], plain(fields[i+1]))
		}
	}
	return w.Flush()
}

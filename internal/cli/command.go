package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/client"
)

// call converts f to a function for cobra. f gets a client for the current account
// and a context that ends when the user interrupts the command.
func (a *app) call(f func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return f(ctx, c, args)
	})
}

// listCommand returns a command "list" that prints the items of list. head contains
// the names of the columns, separated by spaces, and row returns the cells of an item.
// none is the message about an empty list.
func listCommand[T any](a *app, short, none, head string, list func(context.Context, *client.Client) iter.Seq2[T, error], row func(T) []string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: short, Args: exactly(), Aliases: []string{"ls"},
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			return printList(a, list(ctx, c), 0, none, head, row)
		}),
	}
}

// each returns a command that calls f for each argument and prints a message such
// as "NAME was removed.", with the name that f returned and the word done. use is a
// command and its argument, such as "rm NAME...".
func (a *app) each(use, short, done string, f func(ctx context.Context, c *client.Client, arg string) (id, name string, err error)) *cobra.Command {
	_, word, _ := strings.Cut(use, " ")
	word, _, _ = strings.Cut(strings.TrimSuffix(word, "..."), "[")
	return &cobra.Command{
		Use: use, Short: short, Args: atLeast(word),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			for _, arg := range args {
				id, name, err := f(ctx, c, arg)
				if err == nil {
					err = a.printResult(map[string]any{"id": id, "name": name, done: true}, "%s was %s.", name, done)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// printResult writes v as JSON to standard output if --json is set. Otherwise it
// writes a message to standard error.
func (a *app) printResult(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	a.note(format, args...)
	return nil
}

// printLine writes v as JSON to standard output if --json is set. Otherwise it writes
// a line of text to standard output.
func (a *app) printLine(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	_, err := fmt.Fprintf(a.Stdout, format+"\n", args...)
	return err
}

// printList writes a list as JSON lines if --json is set, and as a table otherwise.
// limit is the maximum number of items; 0 means all. head contains the names of the
// columns, separated by spaces, and row returns the cells of an item. If the list is
// empty and --json is not set, printList writes the message none to standard error.
func printList[T any](a *app, items iter.Seq2[T, error], limit int, none, head string, row func(T) []string) error {
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
			_ = w.Flush() // err is returned, because it came first
			return err
		}
		if n++; n == limit {
			break
		}
	}
	if n == 0 && !a.json {
		a.note("%s", none)
	}
	return w.Flush()
}

// orError returns items, or the error of check if items is empty.
func orError[T any](items iter.Seq2[T, error], check func() error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		empty := true
		for item, err := range items {
			if empty = false; !yield(item, err) {
				return
			}
		}
		if !empty {
			return
		}
		if err := check(); err != nil {
			yield(*new(T), err)
		}
	}
}

// withoutErrors returns a list as a sequence for printList, with nil errors.
func withoutErrors[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// printOne writes v as JSON if --json is set. Otherwise it writes the fields, which
// alternate between a label and its text, one pair a line. Pairs with an empty text
// are omitted.
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

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// Intervals of the live table.
const (
	topRefresh = 2 * time.Second        // between a response and the next request
	topResize  = 250 * time.Millisecond // between two checks of the terminal's size
)

func (a *app) top() *cobra.Command {
	var once bool
	var limit int
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch running and waiting runs",
		Long: `Show the running runs of your organisation with their CPU, memory, tokens, and
cost, and the waiting ones with the reason. On a terminal, the table is updated
every 2 seconds until you press q or Ctrl-C. Otherwise, and with --once, it is
printed once; --json prints all members.`,
		Args: exactly(),
	}
	c.Flags().BoolVar(&once, "once", false, "print the table once")
	c.Flags().IntVar(&limit, "limit", stint.DefaultActivityLimit, fmt.Sprintf("maximum number of runs, 1 to %d", stint.MaxActivityLimit))
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) error {
		if limit < 1 || limit > stint.MaxActivityLimit {
			return usage(c, "--limit: %d is not between 1 and %d", limit, stint.MaxActivityLimit)
		}
		server, err := a.client()
		if err != nil {
			return err
		}
		activity, err := server.Runs.Activity(ctx, limit)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.printJSON(activity)
		case once || !a.IsTerminal(stdout):
			return a.printActivity(activity)
		}
		return a.watchActivity(ctx, server, activity, limit)
	})
	return c
}

// printActivity prints the table once.
func (a *app) printActivity(activity *stint.Activity) error {
	return printList(a, withoutErrors(activity.Data), 0, "No active runs.", topColumns, func(r stint.ActiveRun) []string {
		return activityRow(&r, activity.At.Time, r.ID)
	})
}

// watchActivity shows the table on the terminal until the user ends it.
func (a *app) watchActivity(ctx context.Context, c *client.Client, first *stint.Activity, limit int) error {
	restore, err := a.RawTerminal()
	if err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	view := topView{server: c.URL(), activity: first, styled: a.styled(stdout)}
	fmt.Fprint(a.topScreen, "\x1b[?1049h\x1b[?25l\x1b[?7l") // alternate screen, no cursor, no line wrap
	defer func() {
		fmt.Fprint(a.topScreen, "\x1b[?7h\x1b[?25h\x1b[?1049l")
		restore()
	}()
	quit, received := a.quitKeys(), make(chan topResult, 1)
	next, resize := time.NewTimer(topRefresh), time.NewTicker(topResize)
	defer next.Stop()
	defer resize.Stop()
	view.draw(a)
	for {
		select {
		case <-quit:
			return nil
		case <-ctx.Done():
			return nil // the user ended the command
		case <-resize.C:
			if width, height := a.TerminalSize(); width == view.width && height == view.height {
				continue
			}
		case <-next.C:
			go func() {
				activity, err := c.Runs.Activity(ctx, limit)
				received <- topResult{activity, err}
			}()
			continue
		case r := <-received:
			if view.err = r.err; r.err == nil {
				view.activity = r.activity
			}
			next.Reset(topRefresh)
		}
		view.draw(a)
	}
}

// topResult is the response to a request for the activity.
type topResult struct {
	activity *stint.Activity
	err      error
}

// quitKeys returns a channel that is closed when the user presses q, Ctrl-C, or Ctrl-D.
// Its goroutine reads the terminal until the program ends.
func (a *app) quitKeys() <-chan struct{} {
	quit := make(chan struct{})
	if !a.IsTerminal(stdin) {
		return quit
	}
	go func() {
		key := make([]byte, 1)
		for {
			n, err := a.Stdin.Read(key)
			if err != nil || n == 1 && (key[0] == 'q' || key[0] == 'Q' || key[0] == 3 || key[0] == 4) {
				close(quit)
				return
			}
		}
	}()
	return quit
}

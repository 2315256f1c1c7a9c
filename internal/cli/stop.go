package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (a *app) stop() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop the server of a data folder on this machine",
		Long: `End the server as Ctrl-C does: the server starts no more runs and waits for
the active runs, at most for the time of its flag --drain. The command returns
when the server has ended.`,
		Args: exactly(),
	}
	c.Flags().StringVar(&data, "data", "", "data folder of the server (also STINT_DATA; same default as stint serve)")
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		cfg, err := a.serverConfig(data)
		if err != nil {
			return err
		}
		status, body, err := askSocket(ctx, cfg.Socket(), http.MethodPost, "/stop", struct{}{})
		if errors.Is(err, errNoSocket) {
			return fmt.Errorf("no server is running with the data folder %s: name another with --data", cfg.Data)
		}
		if err == nil && status != http.StatusAccepted {
			err = refusal(status, body)
		}
		if err != nil {
			return err
		}
		if err := a.awaitStopped(ctx, filepath.Join(cfg.Data, "lock")); err != nil {
			return err
		}
		return a.printResult(map[string]any{"dataDir": cfg.Data, "stopped": true}, "The server has stopped.")
	})
	return c
}

// awaitStopped waits until no server holds the lock of a data folder.
func (a *app) awaitStopped(ctx context.Context, lock string) error {
	note := time.After(loginNote)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if held, err := isLocked(lock); err != nil || !held {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-note:
			a.note("The server is stopping; active runs may continue for the time of its flag --drain.")
		case <-tick.C:
		}
	}
}

// isLocked reports whether another process holds a lock on a file.
func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the lock of the data folder: %w", err)
	}
	defer f.Close() // also releases the lock
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the lock of the data folder: %w", err)
	}
	return false, nil
}

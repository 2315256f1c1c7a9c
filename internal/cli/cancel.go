package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (a *app) runsCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel RUN...", Short: "Cancel pending or running runs", Args: atLeast("RUN"),
		Long: `End pending or running runs. The command waits a few seconds for the checkpoint
and the files of a run that was running, and prints how to continue with them.`,
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			var failed error
			var cancelled []*stint.Run
			for _, ref := range args {
				run, err := cancelRun(ctx, c, ref)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				cancelled = append(cancelled, run)
			}
			for _, run := range cancelled {
				run = awaitCheckpoint(ctx, c, run)
				if a.json {
					failed = errors.Join(failed, a.printJSON(run))
				} else {
					a.note("%s is %s.", run.ID, run.Status)
					a.explainCancelled(run)
				}
			}
			return failed
		}),
	}
}

func cancelRun(ctx context.Context, c *client.Client, ref string) (*stint.Run, error) {
	id, err := resolve(ctx, c, stint.PrefixRun, ref)
	if err != nil {
		return nil, err
	}
	return c.Runs.Cancel(ctx, id)
}

// A cancelled run is read at most checkpointTries times, every checkpointEvery,
// until its checkpoint appears. This takes up to 5 s, or longer if the server is
// slow.
const (
	checkpointTries = 50
	checkpointEvery = 100 * time.Millisecond
)

// awaitCheckpoint waits for the checkpoint of a cancelled run, which is stored after
// the run's end. It returns the run as last read.
func awaitCheckpoint(ctx context.Context, c *client.Client, run *stint.Run) *stint.Run {
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	for try := 0; try < checkpointTries && run.Status == stint.Cancelled && run.StartedAt != nil && run.CheckpointID == nil; try++ {
		select {
		case <-ctx.Done():
			return run
		case <-tick.C:
		}
		read, err := c.Runs.Get(ctx, run.ID)
		if err != nil {
			return run // the command continues with what it knows
		}
		run = read
	}
	return run
}

// explainCancelled prints where the files and the conversation of a cancelled run are,
// unless --json is set.
func (a *app) explainCancelled(run *stint.Run) {
	switch {
	case a.json || run.Status != stint.Cancelled || run.StartedAt == nil:
	case run.CheckpointID == nil:
		a.note("The files of %s are not stored yet. See later: stint runs show %s", run.ID, run.ID)
	default:
		if run.ArtifactName != nil && run.ArtifactVersion != nil {
			a.note("Get its files:       stint artifact pull %s@%s DIR", *run.ArtifactName, *run.ArtifactVersion)
		}
		a.note("Continue from there: stint resume %s PROMPT", *run.CheckpointID)
	}
}

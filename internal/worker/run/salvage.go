package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox/pool"
	"github.com/stint-dev/stint/internal/store"
)

// Salvage stores the state that an earlier process left in the folder of a run, and
// attaches it to the run. It returns a *store.FencedError if the run was claimed again, is
// claimed, or has a checkpoint. No process may use the folder.
//
// The run must have ended. If the worker's lease is still valid, Salvage waits until the
// run is taken from the worker.
func (s *Shared) Salvage(ctx context.Context, dir string, r *Record) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	if err := s.awaitEnd(ctx, r.Position); err != nil {
		return err
	}
	left := s.leftState(ctx, dir, r)
	begin := s.Now()
	workspace, _, err := left.commitWorkspace(ctx)
	if err != nil {
		return fmt.Errorf("store workspace: %w", err)
	}
	if err := left.writeConversation(r.Conversation); err != nil {
		return err
	}
	home, err := left.commitHomeFiles(ctx)
	if err != nil {
		return fmt.Errorf("store home: %w", err)
	}
	left.saved = saved{left.checkpoint(home, workspace), left.version(workspace), []files.Ref{home, workspace}}
	err = left.publish(ctx, func() error {
		return s.Dispatcher.AddCheckpoint(ctx, r.Position, left.saved.version, *left.saved.checkpoint)
	})
	if err != nil {
		return err
	}
	s.Logger.Info("stored the files of a run after a crash", "run", r.Position.RunID, "files", workspace.Files, "bytes", workspace.Size)
	metadata := left.since(begin)
	metadata["files"], metadata["bytes"] = workspace.Files, workspace.Size
	entries := []stint.LogEntry{left.entry("info", "The worker was lost. Its next start found the run's workspace and home, and stored them as the run's checkpoint.", metadata)}
	if r.Boot != bootID() {
		entries = append(entries, left.entry("warn", "The host was restarted: files that the agent wrote in its last seconds can be incomplete.", nil))
	}
	s.note(ctx, r.Position.RunID, entries...)
	return nil
}

// ReportLost adds a warning to the log of a lost run whose state cannot be stored.
func (s *Shared) ReportLost(ctx context.Context, runID, reason string) {
	left := state{Shared: s}
	s.note(ctx, runID, left.entry("warn", "The worker was lost, and the run has no checkpoint: "+reason, nil))
}

func (s *Shared) note(ctx context.Context, runID string, entries ...stint.LogEntry) {
	if err := s.Dispatcher.AddLogs(ctx, runID, entries); err != nil {
		s.Logger.Warn("add to the log of a lost run", "run", runID, "error", err)
	}
}

func (s *state) entry(level, message string, metadata map[string]any) stint.LogEntry {
	return stint.LogEntry{Timestamp: stint.TimeOf(s.Now()), Type: stint.LogSystem, Level: level, Message: message, Metadata: metadata}
}

// ownedPause is the time between two checks whether a run was taken from a worker.
const ownedPause = 200 * time.Millisecond

// awaitEnd waits until the run is not running in the epoch of the position.
func (s *Shared) awaitEnd(ctx context.Context, at store.Position) error {
	for {
		owned, err := s.Dispatcher.Owns(ctx, at)
		if err != nil || !owned {
			return err
		}
		select {
		case <-time.After(ownedPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leftState returns a state with the fields that storing the files of a run needs.
func (s *Shared) leftState(ctx context.Context, dir string, r *Record) *state {
	left := &state{Shared: s, log: s.Logger.With("run", r.Position.RunID), life: newLifetime(ctx)}
	left.a = dispatch.Assignment{
		OrgID: r.OrgID, AgentVersionID: r.AgentVersionID, Position: r.Position, Plan: &r.Plan,
	}
	run := &left.a.Run
	run.ID, run.SessionID, run.AgentID, run.AgentName = r.Position.RunID, r.Run.SessionID, r.Run.AgentID, r.Run.AgentName
	left.dirs = &pool.Dirs{Dir: dir, Home: filepath.Join(dir, "home"), Workspace: filepath.Join(dir, "workspace")}
	if r.Upper != "" {
		left.upper = filepath.Join(dir, r.Upper)
	}
	left.plan = framework.Plan{State: framework.State{Keep: r.Keep, Drop: r.Drop}}
	return left
}

// IsFenced reports whether an error of Salvage is final because the run has gone on
// without the state.
func IsFenced(err error) bool {
	_, fenced := errors.AsType[*store.FencedError](err)
	return fenced || errors.Is(err, store.ErrNotFound)
}

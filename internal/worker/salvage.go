package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/run"
)

// leftRun is a folder that a run left because its process crashed, its worker lost its
// lease, or its worker stopped.
type leftRun struct {
	dir     string
	record  run.Record
	release func() // of the run's session
}

// setAside makes an empty work folder, and moves the folders of earlier runs aside. It
// lists those with a state to be stored, and holds their sessions.
func (w *Worker) setAside() error {
	work, aside := w.shared.WorkDir, filepath.Join(w.c.Dir, "aside")
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	if err := os.Rename(work, filepath.Join(aside, w.c.IDs.New(stint.PrefixSandbox))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(aside, "*", "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		w.addLeft(dir)
	}
	return os.Mkdir(work, 0o700)
}

// addLeft adds a folder to the list, if it has a record.
func (w *Worker) addLeft(dir string) {
	r, ok, err := run.ReadRecord(dir)
	if err != nil {
		w.c.Logger.Warn("a folder of an earlier run is not readable; its files are not stored", "folder", dir, "error", err)
	}
	if !ok || err != nil {
		return
	}
	w.leftMu.Lock()
	defer w.leftMu.Unlock()
	w.left = append(w.left, leftRun{dir, r, w.c.Dispatcher.Hold(r.Run.SessionID)})
	select {
	case w.found <- struct{}{}:
	default:
	}
}

// keep moves the folder of a run aside, and adds it to the list.
func (w *Worker) keep(dir string) error {
	aside := filepath.Join(w.c.Dir, "aside", w.c.IDs.New(stint.PrefixSandbox))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	to := filepath.Join(aside, filepath.Base(dir))
	if err := os.Rename(dir, to); err != nil {
		return err
	}
	w.addLeft(to)
	return nil
}

// storeLeft stores the state of the listed runs until ctx ends, and removes the other
// folders that an earlier process left. If ctx ends first, the next process continues.
func (w *Worker) storeLeft(ctx context.Context) {
	for first := true; ; first = false {
		w.leftMu.Lock()
		left := w.left
		w.left = nil
		w.leftMu.Unlock()
		for _, l := range left {
			w.storeRun(ctx, l)
		}
		if first && ctx.Err() == nil {
			w.removeAside()
		}
		select {
		case <-w.found:
		case <-ctx.Done():
			return
		}
	}
}

// releaseLeft releases the sessions of runs whose state the next start of the worker stores.
func (w *Worker) releaseLeft() {
	w.leftMu.Lock()
	defer w.leftMu.Unlock()
	for _, l := range w.left {
		l.release()
	}
	w.left = nil
}

// The pauses between attempts to store the state of a run.
var storePauses = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// storeRun stores the state of a run and removes its folder. After several failed
// attempts, it keeps the folder for the next start of the worker.
func (w *Worker) storeRun(ctx context.Context, l leftRun) {
	defer l.release()
	id := l.record.Position.RunID
	for i := 0; ; i++ {
		err := w.shared.Salvage(ctx, l.dir, &l.record)
		user, refused := errors.AsType[*stint.Error](err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
		case run.IsFenced(err):
			w.c.Logger.Info("the files of a run are not stored, because it went on or was removed", "run", id)
		case refused && user.Kind != stint.KindUnavailable:
			w.shared.ReportLost(ctx, id, user.Message)
		case i < len(storePauses):
			w.c.Logger.Warn("the files of a run are not stored; trying again", "run", id, "error", err)
			pause(ctx, storePauses[i])
			continue
		default:
			w.c.Logger.Error("the files of a run are not stored; the next start tries again", "run", id, "folder", l.dir, "error", err)
			return
		}
		w.remove(l.dir)
		_ = os.Remove(filepath.Dir(l.dir)) // if it is empty
		return
	}
}

// ReportMissing adds a warning to the logs of lost runs of an earlier process that left no
// state on the disk. Call it before Run.
func (w *Worker) ReportMissing(ctx context.Context, lost []string) {
	for _, id := range lost {
		if !slices.ContainsFunc(w.left, func(l leftRun) bool { return l.record.Position.RunID == id }) {
			w.shared.ReportLost(ctx, id, "its workspace and conversation were not found on the worker's disk.")
		}
	}
}

// removeAside removes the folders without a state to be stored.
func (w *Worker) removeAside() {
	dirs, _ := filepath.Glob(filepath.Join(w.c.Dir, "aside", "*", "*")) // the pattern is valid
	for _, dir := range dirs {
		if _, ok, err := run.ReadRecord(dir); !ok && err == nil {
			w.remove(dir)
		}
	}
	parents, _ := filepath.Glob(filepath.Join(w.c.Dir, "aside", "*"))
	for _, dir := range parents {
		_ = os.Remove(dir) // if it is empty
	}
}

func (w *Worker) remove(dir string) {
	if err := sandbox.Remove(dir); err != nil {
		w.c.Logger.Warn("folders of earlier runs could not be removed; remove them by hand", "folder", dir, "error", err)
	}
}

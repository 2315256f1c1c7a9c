package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var mountCases = []testCase{
	{"a mounted version remains until the run ends", func(w *world) {
		for _, e := range ends {
			m := w.home.mounted(e.name)
			pending := w.home.create(m.mount)
			w.home.wantInUse(m, e.name+": a pending run")
			w.cancel(w.home.org, pending.ID)
			c := w.home.start(m.mount)
			w.home.wantInUse(m, e.name+": a running run")
			e.do(w, c)
			if e.status == stint.Cancelled {
				w.home.wantInUse(m, "a cancelled run with a worker")
				w.lose(c.Run.WorkerID)
			}
			w.must(w.s.DeleteVersion(w.ctx, w.home.org, m.tree.ID, m.old.ID), e.name+": DeleteVersion after the end")
		}
	}},
	{"the mounts of a cancelled run remain until its checkpoint is added", func(w *world) {
		m := w.home.mounted("data")
		c := w.home.start(m.mount)
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Volumes, m.tree.ID, w.now()), "DeleteFileSet")
		w.cancel(w.home.org, c.Run.ID)
		w.diff("removed", int64(1), w.home.prune(store.Retention{Last: 1})) // only the head is removed
		_, chk := w.home.saved(c.Run, "out", "x")
		chk.ArtifactName, chk.Volumes = nil, c.Run.Volumes
		_, err := w.s.AddCheckpoint(w.ctx, c.Position, nil, chk)
		w.must(err, "AddCheckpoint")
		w.lose(c.Run.WorkerID)
		w.diff("removed after that", int64(0), w.home.prune(store.Retention{Last: 1}))
		w.diff("version", m.old, w.home.treeVersion(m.tree.ID, m.old.ID, 0))
		w.home.create(m.mount) // mounts a version that only the checkpoint references
	}},
	{"a late checkpoint cannot reference a removed version", func(w *world) {
		for _, gone := range []bool{false, true} {
			m := w.home.mounted(fmt.Sprint("data-", gone))
			c := w.home.start(m.mount)
			w.cancel(w.home.org, c.Run.ID)
			w.lose(c.Run.WorkerID)
			_, chk := w.home.saved(c.Run, "out", "x")
			chk.ArtifactName, chk.Volumes = nil, c.Run.Volumes
			if gone {
				w.must(w.s.DeleteVersion(w.ctx, w.home.org, m.tree.ID, m.old.ID), "DeleteVersion")
			}
			_, err := w.s.AddCheckpoint(w.ctx, c.Position, nil, chk)
			if gone {
				w.wantFenced(err, c.Run.ID, "AddCheckpoint")
				continue
			}
			w.must(err, "AddCheckpoint")
			w.home.wantInUse(m, "no run, but a checkpoint references")
		}
	}},
	{"the mounts of a cancelled run are released when its worker no longer holds it", func(w *world) {
		m, held := w.home.cancelledAfterTTL("held", true)
		w.reap()
		w.home.wantInUse(m, "a run in the worker's holds")
		// This Renew does not report the run. The claim is younger than its ttl of one
		// hour, so the worker may not have received the claim yet.
		w.renew(held.Run.WorkerID)
		w.reap()
		w.home.wantInUse(m, "a recently claimed run")
		m, _ = w.home.cancelledAfterTTL("gone", false)
		w.reap()
		w.must(w.s.DeleteVersion(w.ctx, w.home.org, m.tree.ID, m.old.ID), "DeleteVersion")
	}},
	{"a version remains until the last run that mounts it ends", func(w *world) {
		m := w.home.mounted("data")
		first, second := w.home.create(m.mount), w.home.create(m.mount)
		w.cancel(w.home.org, first.ID)
		w.home.wantInUse(m, "one run of two")
		w.cancel(w.home.org, second.ID)
		w.diff("removed", int64(1), w.home.prune(store.Retention{Last: 1}))
		w.diff("left", []int64{2}, w.home.numbers(m.tree.ID))
	}},
	{"a requeued run keeps its mounts", func(w *world) {
		m := w.home.mounted("data")
		c := w.home.start(m.mount, retries(1))
		w.lose(c.Run.WorkerID)
		w.home.wantInUse(m, "a requeued run")
	}},
	{"a mounted version of a deleted volume remains until and after the checkpoint", func(w *world) {
		m := w.home.mounted("data")
		c := w.home.start(m.mount)
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Volumes, m.tree.ID, w.now()), "DeleteFileSet")
		w.diff("removed", int64(1), w.home.prune(store.Retention{})) // only the head is removed
		o := w.outcome(stint.Completed, w.home.checkpoint(c.Run))
		o.Checkpoint.Volumes = c.Run.Volumes
		w.finish(c.Position, o)
		w.diff("removed after the run", int64(0), w.home.prune(store.Retention{}))
		w.diff("version", m.old, w.home.treeVersion(m.tree.ID, m.old.ID, 0))
		again := w.home.create(m.mount) // mounts a version that only the checkpoint references
		w.home.fileSet(stint.Volumes, "data")
		w.home.create(m.mount) // succeeds although another volume has the same name
		w.cancel(w.home.org, again.ID)
		w.diff("removed after that", int64(0), w.home.prune(store.Retention{}))
	}},
	{"a deleted volume is removed after the last run that mounts it", func(w *world) {
		m := w.home.mounted("data")
		n := w.home.create(m.mount)
		w.must(w.s.DeleteFileSet(w.ctx, w.home.org, stint.Volumes, m.tree.ID, w.now()), "DeleteFileSet")
		w.diff("removed meanwhile", int64(1), w.home.prune(store.Retention{}))
		w.cancel(w.home.org, n.ID)
		w.diff("removed after the run", int64(1), w.home.prune(store.Retention{}))
	}},
	{"a removed version cannot be mounted", func(w *world) {
		m := w.home.mounted("data")
		w.must(w.s.DeleteVersion(w.ctx, w.home.org, m.tree.ID, m.old.ID), "DeleteVersion")
		for name, mount := range map[string]func(*store.NewRun){
			"a deleted version":             m.mount,
			"of a volume that never was":    mounts("never", m.old.ID),
			"another organisation's volume": mounts("foreign", w.tenant("other").mounted("foreign").old.ID),
		} {
			n := w.home.newRun(mount)
			_, err := w.s.CreateRun(w.ctx, n, nil)
			w.wantErr(err, store.ErrNotFound, "CreateRun with "+name)
			_, err = w.s.Run(w.ctx, w.home.org, n.ID)
			w.wantErr(err, store.ErrNotFound, "Run with "+name)
		}
	}},
	{"of concurrent mount and removal exactly one succeeds", func(w *world) {
		for i := range 20 {
			m := w.home.mounted(fmt.Sprint("data-", i))
			n := w.home.newRun(m.mount)
			var mounted, removed bool
			w.concurrently(2, func(k int) error {
				if k == 0 {
					_, err := w.s.CreateRun(w.ctx, n, nil)
					mounted = err == nil
					return ignoring(err, store.ErrNotFound)
				}
				if i%2 == 0 {
					pruned, err := w.s.PruneVersions(w.ctx, store.Retention{Last: 1})
					removed = pruned == 1
					return err
				}
				err := w.s.DeleteVersion(w.ctx, w.home.org, m.tree.ID, m.old.ID)
				removed = err == nil
				return ignoring(err, store.ErrInUse)
			})
			if mounted == removed {
				w.Errorf("mounted: %v, removed: %v", mounted, removed)
			}
		}
	}},
}

// mountable is a volume with two versions. old is the first version. mount is an option of
// newRun: it changes the new run so that the run mounts old.
type mountable struct {
	tree  store.FileSet
	old   store.FileSetVersion
	mount func(*store.NewRun)
}

func (o *tenant) mounted(name string) mountable {
	o.w.Helper()
	m := mountable{tree: o.fileSet(stint.Volumes, name)}
	m.old = o.committed(o.commit(m.tree.ID, "old"))
	o.committed(o.commit(m.tree.ID, "new"))
	m.mount = mounts(name, m.old.ID)
	return m
}

func mounts(name, version string) func(*store.NewRun) {
	return func(n *store.NewRun) { n.Volumes = map[string]string{name: version} }
}

// mounting creates a volume with two versions and returns an option of newRun that mounts
// the first version.
func (o *tenant) mounting(name string) func(*store.NewRun) {
	o.w.Helper()
	return o.mounted(name).mount
}

// wantInUse checks that neither DeleteVersion nor PruneVersions removes the version m.old.
// what describes the run or checkpoint that references the version.
func (o *tenant) wantInUse(m mountable, what string) {
	o.w.Helper()
	o.w.wantErr(o.w.s.DeleteVersion(o.w.ctx, o.org, m.tree.ID, m.old.ID), store.ErrInUse, "DeleteVersion of the version mounted by "+what)
	o.w.diff("versions pruned that are mounted by "+what, int64(0), o.prune(store.Retention{Last: 1}))
	o.w.diff("version", m.old, o.treeVersion(m.tree.ID, m.old.ID, 0))
}

// cancelledAfterTTL returns a volume and a cancelled run that mounts it. The run's worker
// still has a lease, and has renewed it with a ttl that is shorter than the age of the
// claim. If holds is true, the worker reported the run in Renew.
func (o *tenant) cancelledAfterTTL(name string, holds bool) (m mountable, c store.Claim) {
	const ttl = 200 * time.Millisecond
	o.w.Helper()
	tries := 0
	// On a slow machine, the short lease may expire before the second Renew. Then the
	// loop starts another run.
	o.w.eventually("a lease was renewed in time", func() bool {
		tries++
		m = o.mounted(fmt.Sprint(name, "-", tries))
		c = o.start(m.mount)
		o.w.cancel(o.org, c.Run.ID)
		o.w.waitFor(ttl)
		var held []string
		if holds {
			held = []string{c.Run.ID}
		}
		_, err := o.w.s.Renew(o.w.ctx, c.Run.WorkerID, held, ttl)
		o.w.must(err, "Renew")
		_, err = o.w.s.Renew(o.w.ctx, c.Run.WorkerID, held, time.Hour)
		return err == nil
	})
	return m, c
}

// reap calls Reap and checks that no run is lost.
func (w *world) reap() {
	w.Helper()
	lost, err := w.s.Reap(w.ctx, w.now(), 100)
	w.must(err, "Reap")
	w.diff("lost", 0, len(lost))
}

// ignoring returns nil if err is the expected error, and err otherwise.
func ignoring(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

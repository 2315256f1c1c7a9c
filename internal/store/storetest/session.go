package storetest

import (
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var sessionCases = []testCase{
	{"a run creates its session", func(w *world) {
		n := w.home.create()
		want := store.Session{OrgID: w.home.org, Session: stint.Session{
			ID: n.SessionID, AgentID: n.AgentID, AgentName: n.AgentName, LastRunID: n.ID, CreatedAt: n.CreatedAt, UpdatedAt: n.CreatedAt,
		}}
		w.diff("session", want, w.home.session(n.SessionID))
		list, err := w.s.Sessions(w.ctx, w.home.org, store.Range{Limit: 10})
		w.must(err, "Sessions")
		w.diff("sessions", []store.Session{want}, list)
		_, err = w.s.Session(w.ctx, w.home.org, w.ids.New(stint.PrefixSession))
		w.wantErr(err, store.ErrNotFound, "Session of an unknown ID")
	}},
	{"a joining run becomes the last of its session", func(w *world) {
		first := w.home.create()
		second := w.home.create(inSession(first.SessionID))
		s := w.home.session(first.SessionID)
		w.diff("last run", second.ID, s.LastRunID)
		w.diff("created", first.CreatedAt, s.CreatedAt)
		if s.UpdatedAt.Before(second.CreatedAt.Time) {
			w.Errorf("the session was updated at %s, before its last run of %s", s.UpdatedAt, second.CreatedAt)
		}
	}},
	{"a run waits until every earlier run of its session has ended", func(w *world) {
		for _, e := range ends {
			first := w.home.start()
			id := first.Run.SessionID
			second, third := w.home.create(inSession(id)), w.home.create(inSession(id), priority(9))
			w.diff(e.name+": claims while the first runs", 0, len(w.claim(w.worker(), 5)))
			e.do(w, first)
			next := w.claim(w.worker(), 5)
			w.diff(e.name+": claimed after the first", []string{second.ID}, claimed(next))
			e.do(w, next[0])
			next = w.claim(w.worker(), 5)
			w.diff(e.name+": claimed after the second", []string{third.ID}, claimed(next))
			e.do(w, next[0])
		}
	}},
	{"runs of a session start in creation order, even with equal times", func(w *world) {
		at := w.now()
		same := func(n *store.NewRun) { n.CreatedAt = at }
		first := w.home.create(same)
		want := []string{first.ID}
		for range 5 {
			want = append(want, w.home.create(inSession(first.SessionID), same).ID)
		}
		var got []string
		for range want {
			c := w.claimOne(w.worker())
			got = append(got, c.Run.ID)
			w.finish(c.Position, w.outcome(stint.Completed))
		}
		w.diff("order", want, got)
	}},
	{"cancelling a waiting run does not change the order", func(w *world) {
		first := w.home.start()
		id := first.Run.SessionID
		second, third := w.home.create(inSession(id)), w.home.create(inSession(id))
		w.cancel(w.home.org, second.ID)
		w.home.checkRun(second.ID)
		w.diff("claims while the first runs", 0, len(w.claim(w.worker(), 5)))
		w.finish(first.Position, w.outcome(stint.Completed))
		w.diff("claimed after the first", []string{third.ID}, claimed(w.claim(w.worker(), 5)))
	}},
	{"after the first waiting run is cancelled the next is ready", func(w *world) {
		first := w.home.create()
		second := w.home.create(inSession(first.SessionID))
		w.cancel(w.home.org, first.ID)
		w.diff("claimed", []string{second.ID}, claimed(w.claim(w.worker(), 5)))
	}},
	{"after the first run expires the next is ready", func(w *world) {
		first := w.home.create()
		second := w.home.create(inSession(first.SessionID))
		ids, err := w.s.Expire(w.ctx, second.CreatedAt, w.now(), 10)
		w.must(err, "Expire")
		w.diff("expired", []string{first.ID}, ids)
		w.diff("claimed", []string{second.ID}, claimed(w.claim(w.worker(), 5)))
	}},
	{"one Expire ends all pending runs of a session", func(w *world) {
		first := w.home.create()
		for range 3 {
			w.home.create(inSession(first.SessionID))
		}
		ids, err := w.s.Expire(w.ctx, later(w.now(), time.Hour), w.now(), 10)
		w.must(err, "Expire")
		w.diff("expired", 4, len(ids))
		for _, id := range ids {
			w.home.checkRun(id)
		}
		w.home.create(inSession(first.SessionID))
		w.diff("claims of the next", 1, len(w.claim(w.worker(), 5)))
	}},
	{"a requeued run keeps its place in the session", func(w *world) {
		first := w.home.start(retries(1))
		second := w.home.create(inSession(first.Run.SessionID))
		w.lose(first.Run.WorkerID)
		again := w.claim(w.worker(), 5)
		w.diff("claimed after the loss", []string{first.Run.ID}, claimed(again))
		w.finish(again[0].Position, w.outcome(stint.Completed))
		w.diff("claimed after the end", []string{second.ID}, claimed(w.claim(w.worker(), 5)))
	}},
	{"a run that joins a session without unfinished runs is ready", func(w *world) {
		first := w.home.start()
		w.finish(first.Position, w.outcome(stint.Completed))
		second := w.home.create(inSession(first.Run.SessionID))
		w.diff("claimed", []string{second.ID}, claimed(w.claim(w.worker(), 5)))
	}},
	{"a run that joins while the last one ends becomes ready", func(w *world) {
		worker := w.worker()
		for i := range 40 {
			w.home.create()
			first := w.claimOne(worker)
			next := w.home.newRun(inSession(first.Run.SessionID))
			w.concurrently(2, func(k int) (err error) {
				switch {
				case k == 0:
					_, err = w.s.CreateRun(w.ctx, next, nil)
				case i%2 == 0:
					_, err = w.s.Finish(w.ctx, first.Position, w.outcome(stint.Completed))
				default:
					_, err = w.s.Cancel(w.ctx, w.home.org, first.Run.ID, w.now())
				}
				return err
			})
			c := w.claimOne(worker)
			w.diff("claimed", next.ID, c.Run.ID)
			w.finish(c.Position, w.outcome(stint.Completed))
		}
	}},
	{"runs of one session never overlap", func(w *world) {
		first := w.home.create()
		const joiners, each = 6, 5
		w.concurrently(joiners, func(int) error {
			for range each {
				if _, err := w.s.CreateRun(w.ctx, w.home.newRun(inSession(first.SessionID)), nil); err != nil {
					return err
				}
			}
			return nil
		})
		held, worker := newRunCounter(), w.worker()
		held.drain(w, 1+joiners*each, 8, func(int) store.ClaimRequest { return store.ClaimRequest{WorkerID: worker, Max: 2, At: w.now()} })
		w.diff("greatest number at once", 1, held.peak[w.home.org])
	}},
}

package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// pause is the pause of runs that are created with pausing.
const pause = time.Hour

// pausing lets a run start again up to n times after it failed, or its worker was lost.
func pausing(n int) func(*store.NewRun) { return retriesAfter("1h", n, stint.ReasonExitCode) }

// endPauses ends the pauses at the given time and returns the runs.
func (w *world) endPauses(at stint.Time) []string {
	w.Helper()
	ids, _, err := w.s.EndPauses(w.ctx, at, 100)
	w.must(err, "EndPauses")
	return ids
}

var attemptCases = []testCase{
	{"a failed run with retries becomes pending with a note", func(w *world) {
		c := w.home.start(retries(1, stint.ReasonExitCode))
		got := w.finish(c.Position, w.outcome(stint.Failed))
		r := w.home.checkRun(c.Run.ID)
		w.diff("returned run", r, got)
		w.diff("status", stint.Pending, r.Status)
		w.diff("final fields", []any{(*stint.Time)(nil), (*int64)(nil), (*stint.Reason)(nil), (*string)(nil), (*string)(nil), (*int)(nil)},
			[]any{r.CompletedAt, r.ExecutionTimeMs, r.StatusReason, r.StatusMessage, r.Error, r.ExitCode})
		events := w.events(c.Run.ID)
		w.diff("events", []string{"pending", "running", "pending"}, w.kinds(events, 1))
		w.diff("note", stint.StatusData{Status: stint.Pending, Attempt: 1, Note: "Attempt 1 of 2 ended (exit_code). exit code 3"}, data[stint.StatusData](w, events[2]))
		if r.Sealed == nil {
			w.Errorf("the secrets of the request are removed before the last attempt")
		}
	}},
	{"the last attempt ends the run", func(w *world) {
		c := w.home.start(retries(1, stint.ReasonExitCode))
		w.finish(c.Position, w.outcome(stint.Failed))
		second := w.claimOne(w.worker())
		w.diff("position", store.Position{RunID: c.Run.ID, Epoch: 2, After: 4}, second.Position)
		o := w.outcome(stint.Failed)
		w.finish(second.Position, o)
		r := w.home.checkRun(c.Run.ID)
		w.diff("status", stint.Failed, r.Status)
		w.diff("events", []string{"pending", "running", "pending", "running", "error", "failed", "complete"}, w.kinds(w.events(c.Run.ID), 1))
		w.diff("startedAt", c.Run.StartedAt, r.StartedAt)
		w.diff("executionTimeMs", int64(84), *r.ExecutionTimeMs)
		w.diff("reasons", []stint.Reason{stint.ReasonExitCode, stint.ReasonExitCode}, []stint.Reason{*r.Attempts[0].StatusReason, *r.Attempts[1].StatusReason})
		w.diff("workers", []string{c.Run.WorkerID, second.Run.WorkerID}, []string{r.Attempts[0].WorkerID, r.Attempts[1].WorkerID})
		w.diff("end of the last attempt", &o.At, r.Attempts[1].EndedAt)
	}},
	{"other reasons end the run", func(w *world) {
		for _, status := range []stint.Status{stint.Completed, stint.TimedOut} {
			c := w.home.start(retries(3, stint.ReasonExitCode))
			w.finish(c.Position, w.outcome(status))
			w.diff("status", status, w.home.checkRun(c.Run.ID).Status)
		}
	}},
	{"a time limit starts the run again", func(w *world) {
		c := w.home.start(retries(1, stint.ReasonTimeLimit))
		w.finish(c.Position, w.outcome(stint.TimedOut))
		w.finish(w.claimOne(w.worker()).Position, w.outcome(stint.Completed))
		r := w.home.checkRun(c.Run.ID)
		w.diff("status", stint.Completed, r.Status)
		w.diff("reason", (*stint.Reason)(nil), r.StatusReason)
	}},
	{"exit code, result, isolation, and image are those of the last attempt", func(w *world) {
		c := w.home.start(retries(1, stint.ReasonExitCode))
		w.finish(c.Position, w.outcome(stint.Failed, func(o *store.Outcome) {
			o.Isolation, o.ImageDigest, o.Result, o.Usage = "gvisor", "sha256:1", json.RawMessage(`"first"`), json.RawMessage(`{"inputTokens":5}`)
		}))
		between := w.home.checkRun(c.Run.ID)
		w.diff("usage of the first attempt", json.RawMessage(`{"inputTokens":5}`), between.Usage)
		w.diff("worker and isolation between attempts", []*string{nil, nil, nil}, []*string{between.Worker, between.Isolation, between.ImageDigest})
		second := w.claimOne(w.worker())
		w.diff("usage at the start of the second attempt", json.RawMessage(`{"inputTokens":5}`), second.Run.Usage)
		w.finish(second.Position, w.outcome(stint.Completed, func(o *store.Outcome) { o.Isolation = "namespace" }))
		r := w.home.checkRun(c.Run.ID)
		w.diff("isolation", new("namespace"), r.Isolation)
		w.diff("image", (*string)(nil), r.ImageDigest)
		w.diff("image of the first attempt", new("sha256:1"), r.Attempts[0].ImageDigest)
		w.diff("isolation of the first attempt", new("gvisor"), r.Attempts[0].Isolation)
		w.diff("exit code", new(0), r.ExitCode)
		w.diff("result", json.RawMessage(nil), r.Result)
		w.diff("usage without new usage", json.RawMessage(`{"inputTokens":5}`), r.Usage)
	}},
	{"a paused run is claimed only after its pause", func(w *world) {
		c := w.home.start(pausing(1))
		o := w.outcome(stint.Failed)
		w.finish(c.Position, o)
		end := later(o.At, pause)
		w.diff("end of the pause", &end, w.home.checkRun(c.Run.ID).RetryAt)
		w.diff("claims during the pause", 0, len(w.claim(w.worker(), 5)))
		ids, next, err := w.s.EndPauses(w.ctx, later(end, -time.Millisecond), 100)
		w.must(err, "EndPauses")
		w.diff("ended too soon", 0, len(ids))
		w.diff("next", &end, next)
		w.diff("claims during the pause", 0, len(w.claim(w.worker(), 5)))
		ids, next, err = w.s.EndPauses(w.ctx, end, 100)
		w.must(err, "EndPauses")
		w.diff("ended", []string{c.Run.ID}, ids)
		w.diff("next", (*stint.Time)(nil), next)
		w.diff("ended twice", 0, len(w.endPauses(end)))
		again := w.claimOne(w.worker())
		w.diff("position", store.Position{RunID: c.Run.ID, Epoch: 2, After: 4}, again.Position)
		w.diff("retryAt of the claim", (*stint.Time)(nil), again.Run.RetryAt)
		w.finish(again.Position, w.outcome(stint.Completed))
		w.home.checkRun(c.Run.ID)
	}},
	{"a lost run pauses as well", func(w *world) {
		c := w.home.start(pausing(1))
		w.lose(c.Run.WorkerID)
		r := w.home.checkRun(c.Run.ID)
		w.diff("claims during the pause", 0, len(w.claim(w.worker(), 5)))
		w.diff("ended", []string{c.Run.ID}, w.endPauses(*r.RetryAt))
		w.finish(w.claimOne(w.worker()).Position, w.outcome(stint.Completed))
		r = w.home.checkRun(c.Run.ID)
		w.diff("reason of the first attempt", ptr(stint.ReasonWorkerLost), r.Attempts[0].StatusReason)
	}},
	{"EndPauses ends at most n pauses, the earliest first", func(w *world) {
		var want []string
		for range 3 {
			c := w.home.start(pausing(1))
			w.finish(c.Position, w.outcome(stint.Failed))
			want = append(want, c.Run.ID)
		}
		end := later(w.now(), 2*pause)
		first, next, err := w.s.EndPauses(w.ctx, end, 2)
		w.must(err, "EndPauses")
		w.diff("ended", want[:2], first)
		w.diff("has a next pause", true, next != nil)
		w.diff("ended", want[2:], w.endPauses(end))
		w.diff("claims", set(want), set(claimed(w.claim(w.worker(), 5))))
	}},
	{"a paused run blocks its session", func(w *world) {
		c := w.home.start(pausing(1))
		second := w.home.create(inSession(c.Run.SessionID))
		third := w.home.create(inSession(c.Run.SessionID))
		w.finish(c.Position, w.outcome(stint.Failed))
		w.diff("claims during the pause", 0, len(w.claim(w.worker(), 5)))
		w.cancel(w.home.org, second.ID)
		fourth := w.home.create(inSession(c.Run.SessionID))
		w.diff("claims after another run of the session has ended", 0, len(w.claim(w.worker(), 5)))
		w.endPauses(later(w.now(), pause))
		for _, want := range []string{c.Run.ID, third.ID, fourth.ID} {
			next := w.claimOne(w.worker())
			w.diff("next run of the session", want, next.Run.ID)
			w.finish(next.Position, w.outcome(stint.Completed))
		}
	}},
	{"a paused run can be cancelled", func(w *world) {
		c := w.home.start(pausing(1))
		next := w.home.create(inSession(c.Run.SessionID))
		w.finish(c.Position, w.outcome(stint.Failed, func(o *store.Outcome) { o.Usage = json.RawMessage(`{"inputTokens":5}`) }))
		got := w.cancel(w.home.org, c.Run.ID)
		r := w.home.checkRun(c.Run.ID)
		w.diff("returned run", r, got)
		w.diff("executionTimeMs", int64(42), *r.ExecutionTimeMs)
		w.diff("usage", json.RawMessage(`{"inputTokens":5}`), r.Usage)
		w.diff("events", []string{"pending", "running", "pending", "cancelled", "complete"}, w.kinds(w.events(c.Run.ID), 1))
		w.diff("ended pauses", 0, len(w.endPauses(later(w.now(), pause))))
		w.diff("next of the session", next.ID, w.claimOne(w.worker()).Run.ID)
	}},
	{"of concurrent Cancel, EndPauses, and Claim none loses the run", func(w *world) {
		for i := range 30 {
			c := w.home.start(pausing(1))
			w.finish(c.Position, w.outcome(stint.Failed))
			at := later(w.now(), pause)
			worker := w.worker()
			var claims []store.Claim
			w.concurrently(3, func(k int) (err error) {
				switch k {
				case 0:
					_, err = w.s.Cancel(w.ctx, w.home.org, c.Run.ID, w.now())
				case 1:
					_, _, err = w.s.EndPauses(w.ctx, at, 10)
				default:
					claims, err = w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 1, At: w.now()})
				}
				return err
			})
			r := w.home.checkRun(c.Run.ID)
			w.diff(fmt.Sprintf("status (race %d)", i), stint.Cancelled, r.Status)
			if len(claims) > 0 {
				_, err := w.s.Finish(w.ctx, claims[0].Position, w.outcome(stint.Completed))
				w.wantFenced(err, c.Run.ID, "Finish after the cancel")
			}
		}
		w.noLoad()
	}},
	{"of concurrent Finish with retry and Cancel the cancel is last", func(w *world) {
		for i := range 30 {
			c := w.home.start(retries(1, stint.ReasonExitCode))
			w.concurrently(2, func(k int) (err error) {
				if k == 0 {
					_, err = w.s.Cancel(w.ctx, w.home.org, c.Run.ID, w.now())
					return err
				}
				_, err = w.s.Finish(w.ctx, c.Position, w.outcome(stint.Failed))
				return ignoreFenced(err)
			})
			w.diff(fmt.Sprintf("status (race %d)", i), stint.Cancelled, w.home.checkRun(c.Run.ID).Status)
		}
		w.noLoad()
	}},
	{"of concurrent Reap and Finish with retry one ends the attempt", func(w *world) {
		for range 30 {
			c := w.home.start(retries(5, stint.ReasonExitCode))
			w.concurrently(3, func(k int) (err error) {
				switch k {
				case 0:
					err = w.s.EndWorker(w.ctx, c.Run.WorkerID)
				case 1:
					_, err = w.s.Reap(w.ctx, w.now(), 10)
				default:
					_, err = w.s.Finish(w.ctx, c.Position, w.outcome(stint.Failed))
				}
				return ignoreFenced(err)
			})
			_, err := w.s.Reap(w.ctx, w.now(), 10)
			w.must(err, "Reap")
			r := w.home.checkRun(c.Run.ID)
			w.diff("status", stint.Pending, r.Status)
			w.diff("attempts", 1, len(r.Attempts))
			w.cancel(w.home.org, c.Run.ID)
		}
		w.noLoad()
	}},
	{"the old attempt is fenced", func(w *world) {
		old := w.home.start(retries(1, stint.ReasonExitCode))
		w.finish(old.Position, w.outcome(stint.Failed))
		check := func(doing string) {
			for _, after := range []int64{old.Position.After, w.head(old.Run.ID)} {
				at := store.Position{RunID: old.Run.ID, Epoch: 1, After: after}
				_, err := w.s.Append(w.ctx, at, w.batch("late"))
				w.wantFenced(err, old.Run.ID, "Append "+doing)
				_, err = w.s.Append(w.ctx, at, w.logBatch("late"))
				w.wantFenced(err, old.Run.ID, "Append of logs "+doing)
				_, err = w.s.Finish(w.ctx, at, w.outcome(stint.Completed))
				w.wantFenced(err, old.Run.ID, "Finish "+doing)
				_, err = w.s.AddCheckpoint(w.ctx, at, nil, *w.outcome(stint.Failed, w.home.checkpoint(old.Run)).Checkpoint)
				w.wantFenced(err, old.Run.ID, "AddCheckpoint "+doing)
			}
		}
		check("before the second attempt")
		next := w.claimOne(w.worker())
		check("during the second attempt")
		w.finish(next.Position, w.outcome(stint.Completed))
		check("after the second attempt")
	}},
	{"a repeated Finish with retry succeeds and changes nothing", func(w *world) {
		c := w.home.start(retries(2, stint.ReasonExitCode))
		o := w.outcome(stint.Failed)
		first := w.finish(c.Position, o)
		w.diff("second answer", first, w.finish(c.Position, o))
		w.diff("head", int64(3), w.head(c.Run.ID))
		next := w.claimOne(w.worker())
		w.finish(c.Position, o)
		w.diff("head", int64(4), w.head(c.Run.ID))
		_, err := w.s.Finish(w.ctx, c.Position, w.outcome(stint.Failed))
		w.wantFenced(err, c.Run.ID, "Finish with another token")
		w.finish(next.Position, w.outcome(stint.Completed))
		w.finish(c.Position, o)
		w.diff("attempts", 2, len(w.home.checkRun(c.Run.ID).Attempts))
	}},
	{"a run that was queued again expires by the time of its queueing", func(w *world) {
		c := w.home.start(retries(1, stint.ReasonExitCode))
		mid := w.now()
		w.finish(c.Position, w.outcome(stint.Failed))
		expired, err := w.s.Expire(w.ctx, mid, w.now(), 10)
		w.must(err, "Expire")
		w.diff("expired", 0, len(expired))
		expired, err = w.s.Expire(w.ctx, later(w.now(), time.Second), w.now(), 10)
		w.must(err, "Expire")
		w.diff("expired", []string{c.Run.ID}, expired)
		r := w.home.checkRun(c.Run.ID)
		w.diff("reason", ptr(stint.ReasonQueueExpired), r.StatusReason)
		w.diff("executionTimeMs", int64(42), *r.ExecutionTimeMs)
	}},
	{"a paused run does not expire", func(w *world) {
		c := w.home.start(pausing(1))
		w.finish(c.Position, w.outcome(stint.Failed))
		expired, err := w.s.Expire(w.ctx, later(w.now(), pause/2), w.now(), 10)
		w.must(err, "Expire")
		w.diff("expired", 0, len(expired))
		w.cancel(w.home.org, c.Run.ID)
	}},
	{"the state of an attempt is kept for the next one", func(w *world) {
		c := w.home.start(retries(2, stint.ReasonExitCode))
		_, err := w.s.AttemptState(w.ctx, c.Run.ID)
		w.wantErr(err, store.ErrNotFound, "AttemptState before the end of an attempt")
		o := w.outcome(stint.Failed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		w.finish(c.Position, o)
		r := w.home.checkRun(c.Run.ID)
		w.diff("checkpoint of the run", (*string)(nil), r.CheckpointID)
		_, err = w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, "out")
		w.wantErr(err, store.ErrNotFound, "FileSetByName of the artifact")
		got, err := w.s.AttemptState(w.ctx, c.Run.ID)
		w.must(err, "AttemptState")
		w.diff("state", store.AttemptState{Checkpoint: o.Checkpoint, Version: o.Version}, got)
		live := w.live()
		w.diff("live", []bool{true, true}, []bool{live[o.Checkpoint.HomeDigest], live[o.Checkpoint.WorkspaceDigest]})
		second := w.claimOne(w.worker())
		w.lose(second.Run.WorkerID)
		got, err = w.s.AttemptState(w.ctx, c.Run.ID)
		w.must(err, "AttemptState after an attempt without state")
		w.diff("home", o.Checkpoint.HomeDigest, got.Checkpoint.HomeDigest)
	}},
	{"a run that ends without a state adopts that of an earlier attempt", func(w *world) {
		for name, end := range map[string]func(store.Claim){
			"cancelled while it waits": func(c store.Claim) { w.cancel(w.home.org, c.Run.ID) },
			"expired": func(store.Claim) {
				_, err := w.s.Expire(w.ctx, later(w.now(), time.Hour), w.now(), 10)
				w.must(err, "Expire")
			},
			"failed without a checkpoint": func(store.Claim) {
				w.finish(w.claimOne(w.worker()).Position, w.outcome(stint.Failed))
			},
		} {
			c := w.home.start(retries(1, stint.ReasonExitCode))
			artifact := w.token()
			artifact = "out-" + string([]rune(artifact)[20:])
			o := w.outcome(stint.Failed, w.home.withVersion(artifact, "pages"), w.home.checkpoint(c.Run))
			w.finish(c.Position, o)
			end(c)
			r := w.home.checkRun(c.Run.ID)
			w.diff(name+": checkpoint", &o.Checkpoint.ID, r.CheckpointID)
			w.diff(name+": artifact", &artifact, r.ArtifactName)
			stored, err := w.s.Checkpoint(w.ctx, w.home.org, o.Checkpoint.ID)
			w.must(err, "Checkpoint")
			w.diff(name+": version", r.ArtifactVersion, stored.ArtifactVersion)
			set, err := w.s.FileSetByName(w.ctx, w.home.org, stint.Artifacts, artifact)
			w.must(err, "FileSetByName")
			w.diff(name+": head", (*string)(nil), set.CurrentVersionID)
			session, err := w.s.Session(w.ctx, w.home.org, r.SessionID)
			w.must(err, "Session")
			w.diff(name+": checkpoint of the session", &o.Checkpoint.ID, session.CheckpointID)
		}
	}},
	{"a cancelled retry adopts the state of an earlier attempt if its worker saves none", func(w *world) {
		for name, stops := range map[string]bool{"the worker stops the run": true, "the worker is lost": false} {
			c := w.home.start(retries(1, stint.ReasonExitCode))
			o := w.outcome(stint.Failed, w.home.checkpoint(c.Run))
			w.finish(c.Position, o)
			second := w.claimOne(w.worker())
			w.cancel(w.home.org, c.Run.ID)
			want := (*string)(nil)
			if stops {
				const ttl = 50 * time.Millisecond // the claim is older, so the worker no longer holds the run
				w.waitFor(ttl)
				_, err := w.s.Renew(w.ctx, second.Run.WorkerID, nil, ttl)
				w.must(err, "Renew")
				w.reap()
				want = &o.Checkpoint.ID
			}
			w.lose(second.Run.WorkerID)
			w.diff(name, want, w.home.run(c.Run.ID).CheckpointID)
		}
	}},
	{"AddCheckpoint gives the state of a lost attempt to the next one", func(w *world) {
		c := w.home.start(retries(2, stint.ReasonExitCode))
		o := w.outcome(stint.Failed, w.home.withVersion("out", "pages"), w.home.checkpoint(c.Run))
		w.finish(c.Position, o)
		lost := w.claimOne(w.worker())
		w.lose(lost.Run.WorkerID)
		saved := w.outcome(stint.Failed, w.home.withVersion("out", "later pages"), w.home.checkpoint(c.Run))
		saved.Checkpoint.ID += "x"
		for range 2 { // the second call is a repetition
			r, err := w.s.AddCheckpoint(w.ctx, lost.Position, saved.Version, *saved.Checkpoint)
			w.must(err, "AddCheckpoint")
			w.diff("status", stint.Pending, r.Status)
		}
		got, err := w.s.AttemptState(w.ctx, c.Run.ID)
		w.must(err, "AttemptState")
		w.diff("state", store.AttemptState{Checkpoint: saved.Checkpoint, Version: saved.Version}, got)
		_, err = w.s.AddCheckpoint(w.ctx, lost.Position, nil, *o.Checkpoint)
		w.wantFenced(err, c.Run.ID, "AddCheckpoint of another checkpoint")
		_, err = w.s.AddCheckpoint(w.ctx, c.Position, saved.Version, *saved.Checkpoint)
		w.wantFenced(err, c.Run.ID, "AddCheckpoint of an earlier attempt")
		third := w.claimOne(w.worker())
		_, err = w.s.AddCheckpoint(w.ctx, lost.Position, saved.Version, *saved.Checkpoint)
		w.wantFenced(err, c.Run.ID, "AddCheckpoint after another claim")
		w.finish(third.Position, w.outcome(stint.Failed))
		w.diff("checkpoint of the run", &saved.Checkpoint.ID, w.home.checkRun(c.Run.ID).CheckpointID)
	}},
	{"a state of an earlier collection epoch is refused", func(w *world) {
		c := w.home.start(retries(1, stint.ReasonExitCode))
		o := w.outcome(stint.Failed, w.home.checkpoint(c.Run))
		_, err := w.s.BeginCollection(w.ctx, w.home.org)
		w.must(err, "BeginCollection")
		_, err = w.s.Finish(w.ctx, c.Position, o)
		w.wantErr(err, store.ErrEpoch, "Finish")
		w.diff("status", stint.Running, w.home.checkRun(c.Run.ID).Status)
	}},
}

// live returns the referenced digests of the organisation.
func (w *world) live() map[string]bool {
	w.Helper()
	all := map[string]bool{}
	for d, err := range w.s.LiveDigests(w.ctx, w.home.org) {
		w.must(err, "LiveDigests")
		all[d] = true
	}
	return all
}

// noLoad checks that the counters of ready and running runs are 0: with a limit of one
// running run, exactly one of two new runs is claimed, and then the other.
func (w *world) noLoad() {
	w.Helper()
	ids := w.home.createMany(2)
	worker := w.worker()
	for range 2 {
		claims, err := w.s.Claim(w.ctx, store.ClaimRequest{WorkerID: worker, Max: 5, PerOrg: 1, At: w.now()})
		w.must(err, "Claim")
		if len(claims) != 1 || !slices.Contains(ids, claims[0].Run.ID) {
			w.Fatalf("Claim with a limit of 1 returned %v, want one of %v", claimed(claims), ids)
		}
		w.finish(claims[0].Position, w.outcome(stint.Completed))
	}
}

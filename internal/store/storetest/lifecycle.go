package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var lifecycleCases = []testCase{
	{"Ping of an open store succeeds", func(w *world) {
		w.must(w.s.Ping(w.ctx), "Ping")
	}},
	{"every method returns after its context has ended", cancelledContext},
	{"an interrupted write happened completely or not at all", func(w *world) {
		c := w.home.start()
		at := c.Position
		for i := range 60 {
			b := w.batch("x", "y")
			ctx, cancel := context.WithTimeout(w.ctx, time.Duration(i*20)*time.Microsecond)
			_, err := w.s.Append(ctx, at, b)
			cancel()
			if err != nil && ctx.Err() == nil {
				w.Fatalf("Append: %v", err)
			}
			at = w.append(at, b) // the retry succeeds and does not store the batch twice
		}
		w.home.checkRun(c.Run.ID)
		w.diff("events", 2+2*60, len(w.events(c.Run.ID)))
	}},
	{"calls of a closed store fail", func(w *world) {
		s := w.h.Open(w.real)
		w.must(s.Close(), "Close")
		if err := s.Ping(w.ctx); err == nil {
			w.Errorf("Ping of a closed store succeeded")
		}
		if _, err := s.Now(w.ctx); err == nil {
			w.Errorf("Now of a closed store succeeded")
		}
		if err := s.EndWorker(w.ctx, "wrk_x"); err == nil {
			w.Errorf("EndWorker of a closed store succeeded")
		}
	}},
}

func cancelledContext(w *world) {
	b := w.home.ownedRows()
	c := store.Position{RunID: b.pending.ID, Epoch: 1, After: 1}
	worker, org, id, at := w.worker(), w.home.org, b.pending.ID, w.now()
	agent, version := w.home.agentPair("late")
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	s, all := w.s, store.Range{Limit: 1}
	errs := map[string]error{
		"Ping": s.Ping(ctx), "Register": s.Register(ctx, store.Worker{ID: "wrk_late"}, time.Hour), "EndWorker": s.EndWorker(ctx, worker),
		"DescribeHost": s.DescribeHost(ctx, store.Host{Name: "host-late"}), "Hosts": second(s.Hosts(ctx)),
		"EndWorkersOnHost": s.EndWorkersOnHost(ctx, "host-a"), "CreateAgent": s.CreateAgent(ctx, agent, version),
		"CreateFileSet": s.CreateFileSet(ctx, w.home.fileSetOf(stint.Volumes, "late")), "DeleteFileSet": s.DeleteFileSet(ctx, org, stint.Artifacts, b.tree.ID, at),
		"DeleteAgent": s.DeleteAgent(ctx, org, w.home.agent.ID, at), "DeleteSecret": s.DeleteSecret(ctx, org, "KEY"),
		"CreateToken": s.CreateToken(ctx, b.token), "RevokeToken": s.RevokeToken(ctx, org, b.token.ID, at),
		"TouchTokens": s.TouchTokens(ctx, map[string]stint.Time{b.token.ID: at}), "EndRequest": s.EndRequest(ctx, org, "key", at, nil),
		"AddMetrics": s.AddMetrics(ctx, id, []stint.MetricsSample{sample(at, 1)}, nil),
		"Now":        second(s.Now(ctx)), "EnsureMember": second(s.EnsureMember(ctx, w.member("late", "late", "owner"))),
		"CreateRun": second(s.CreateRun(ctx, w.home.newRun(), nil)), "Run": second(s.Run(ctx, org, id)),
		"RunSummaries": second(s.RunSummaries(ctx, org, store.RunFilter{}, all)), "Claim": second(s.Claim(ctx, store.ClaimRequest{WorkerID: worker, Max: 1, At: at})),
		"Finish": second(s.Finish(ctx, c, w.outcome(stint.Completed))), "Cancel": second(s.Cancel(ctx, org, id, at)),
		"AddCheckpoint": second(s.AddCheckpoint(ctx, c, nil, store.Checkpoint{})),
		"Expire":        second(s.Expire(ctx, at, at, 1)), "Reap": second(s.Reap(ctx, at, 1)), "Renew": second(s.Renew(ctx, worker, nil, time.Hour)),
		"Append": second(s.Append(ctx, c, w.batch("x"))), "Events": second(s.Events(ctx, id, 0, 1)),
		"LogSources": second(s.LogSources(ctx, id, store.LogPosition{}, false, 1)), "LogPositionAt": second(s.LogPositionAt(ctx, id, at)),
		"Session": second(s.Session(ctx, org, b.run.SessionID)), "Sessions": second(s.Sessions(ctx, org, all)),
		"Checkpoint": second(s.Checkpoint(ctx, org, *b.run.CheckpointID)), "Metrics": second(s.Metrics(ctx, id)), "Activity": second(s.Activity(ctx, org, 1)),
		"Load": second(s.Load(ctx)), "OrgLoads": second(s.OrgLoads(ctx, 1)), "FirstOrg": second(s.FirstOrg(ctx)),
		"Agent": second(s.Agent(ctx, org, w.home.agent.ID)), "Agents": second(s.Agents(ctx, org, all)),
		"FileSets": second(s.FileSets(ctx, org, stint.Artifacts, all)), "FileSetVersion": second(s.FileSetVersion(ctx, org, b.tree.ID, "", 0)),
		"Tokens": second(s.Tokens(ctx, org, all)), "TokenByHash": second(s.TokenByHash(ctx, b.token.Hash)), "Secrets": second(s.Secrets(ctx, org)), "SecretNotices": second(s.SecretNotices(ctx)),
		"BeginRequest": second(s.BeginRequest(ctx, org, "key", []byte("f"), at, at, at)), "PurgeRequests": second(s.PurgeRequests(ctx, at)),
		"MarkObjects": s.MarkObjects(ctx, org, 1, []string{"key"}, at), "UnmarkObjects": s.UnmarkObjects(ctx, org, []string{"key"}),
		"LiveDigests": firstError(s.LiveDigests(ctx, org)), "NamedSnapshots": firstError(s.NamedSnapshots(ctx, org)),
	}
	addOtherMethods(ctx, s, errs)
	for name, err := range errs {
		if !errors.Is(err, context.Canceled) {
			w.Errorf("%s with an ended context returned %v, want %v", name, err, context.Canceled)
		}
	}
	w.diff("pending run", b.pending.Run, w.home.run(id))
	w.diff("events", 1, len(w.events(id)))
}

func second[T any](_ T, err error) error { return err }

// firstError returns the first error of a sequence, or nil.
func firstError[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// addOtherMethods calls each method of the store that errs does not contain, with zero
// arguments, and adds its error to errs.
func addOtherMethods(ctx context.Context, s store.Store, errs map[string]error) {
	for m := range reflect.TypeFor[store.Store]().Methods() {
		if _, called := errs[m.Name]; called || m.Name == "Close" {
			continue
		}
		in := []reflect.Value{reflect.ValueOf(ctx)}
		for n := 1; n < m.Type.NumIn(); n++ {
			in = append(in, reflect.Zero(m.Type.In(n)))
		}
		out := reflect.ValueOf(s).MethodByName(m.Name).Call(in)
		errs[m.Name], _ = reflect.TypeAssert[error](out[len(out)-1])
	}
}

// reopenCases test that a store keeps its state after closing and reopening. They require
// Harness.Reopen.
var reopenCases = []testCase{
	{"all data remains after reopening", func(w *world) {
		b := w.home.ownedRows()
		since := w.home.begin("key", "f", w.now(), nil)
		w.must(w.s.EndRequest(w.ctx, w.home.org, "key", since, &store.Answer{Status: 201}), "EndRequest")
		w.must(w.s.AddMetrics(w.ctx, b.run.ID, []stint.MetricsSample{sample(w.now(), 1)}, nil), "AddMetrics")
		events, log, samples := w.events(b.run.ID), w.readLog(b.run.ID, false, 100), w.samples(b.run.ID)
		session, checkpoint := w.home.session(b.run.SessionID), w.home.readCheckpoint(*b.run.CheckpointID)

		w.reopen()
		w.diff("run", b.run, w.home.checkRun(b.run.ID))
		w.diff("pending run", b.pending.Run, w.home.checkRun(b.pending.ID))
		w.diff("events", events, w.events(b.run.ID))
		w.diff("log", log, w.readLog(b.run.ID, false, 100))
		w.diff("samples", samples, w.samples(b.run.ID))
		w.diff("session", session, w.home.session(b.run.SessionID))
		w.diff("checkpoint", checkpoint, w.home.readCheckpoint(*b.run.CheckpointID))
		w.diff("artifact", b.tree, w.home.artifact("out"))
		w.diff("secrets", []string{"KEY"}, w.home.secretNames())
		w.home.begin("key", "f", w.now(), &store.Answer{Status: 201})
		token, err := w.s.TokenByHash(w.ctx, b.token.Hash)
		w.must(err, "TokenByHash")
		w.diff("token", b.token, token)
		agent, err := w.s.AgentByName(w.ctx, w.home.org, w.home.agent.Name)
		w.must(err, "AgentByName")
		w.diff("agent", w.home.agent, agent)
	}},
	{"a running run continues after reopening", func(w *world) {
		c := w.home.start()
		b := w.batch("one")
		at := w.append(c.Position, b)
		w.reopen()
		w.diff("stop", []string(nil), w.renew(c.Run.WorkerID, c.Run.ID))
		w.append(c.Position, b)
		at = w.append(at, w.batch("two"))
		w.finish(at, w.outcome(stint.Completed))
		w.home.checkRun(c.Run.ID)
	}},
	{"limits and fair order remain after reopening", func(w *world) {
		first := w.home.start()
		w.home.create(inSession(first.Run.SessionID))
		w.home.create()
		w.reopen()
		w.diff("claims with a limit of 1", 0, len(w.claimLimited(1, 0, 5)))
		w.diff("claims without", 1, len(w.claimLimited(0, 0, 5)))
		w.finish(first.Position, w.outcome(stint.Completed))
		w.diff("claims after the end", 1, len(w.claimLimited(0, 0, 5)))
	}},
	{"writes acknowledged during Close are stored", func(w *world) {
		w.home.createMany(8)
		claims := w.claim(w.worker(), 8)
		heads := make([]int64, len(claims))
		for i, c := range claims {
			heads[i] = c.Position.After
		}
		w.concurrently(len(claims)+1, func(i int) error {
			if i == len(claims) {
				for w.head(claims[0].Run.ID) < 10 {
					if w.ctx.Err() != nil {
						return fmt.Errorf("no events came: %w", w.ctx.Err())
					}
				}
				return w.s.Close()
			}
			for at := claims[i].Position; ; {
				head, err := w.s.Append(w.ctx, at, w.batch("x"))
				if err != nil {
					return nil // the store is closed
				}
				at.After, heads[i] = head, head
			}
		})
		w.reopen()
		for i, c := range claims {
			if head := w.head(c.Run.ID); head < heads[i] || head > heads[i]+1 {
				w.Errorf("head is %d, but %d was acknowledged", head, heads[i])
			}
			w.home.checkRun(c.Run.ID)
		}
	}},
}

func (w *world) reopen() {
	w.Helper()
	t, ok := w.tb.(testing.TB)
	if !ok {
		t = w.real
	}
	w.s = w.h.Reopen(t, w.s)
}

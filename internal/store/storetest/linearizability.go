package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Linearizable runs concurrent clients that use the same runs, records their calls and
// results, and checks that this history is linearizable. The variable protocol specifies the
// correct results. Some clients are workers, which pause, crash, and lose acknowledgements.
// The other clients cancel runs, end leases, reap, and read.
func Linearizable(t *testing.T, h Harness) {
	w := newWorld(t, h)
	s := newWorkload(w, w.s, 3)
	s.run(200, 3*time.Second)
	if s.err != nil {
		t.Fatalf("a call failed: %v", s.err)
	}
	t.Logf("%d calls on %d runs", len(s.ops), len(s.runs))
	for kind, n := range s.kinds() {
		t.Logf("%6d %s", n, kind)
	}
	if bad, verdict := s.check(time.Minute); verdict != porcupine.Ok {
		t.Errorf("the history is %s; calls on the run:\n%s", verdict, s.format(bad))
	}
	for _, id := range s.runs {
		w.home.checkRun(id)
	}
}

// workload runs concurrent clients of one store and records the history of their calls.
type workload struct {
	w          *world
	s          store.Store // w.s, or a mutant that wraps w.s
	pauseOneIn int         // on average, one in pauseOneIn workers pauses and loses its lease
	runs       []string
	start      time.Time

	mu    sync.Mutex // guards the fields below
	ops   []porcupine.Operation
	alive map[string]store.Position // by worker ID: the claims from which endOne selects
	taken map[string]chan struct{}  // by run ID: a channel that the next claim of the run closes
	err   error                     // the first unexpected error of a call
}

func newWorkload(w *world, s store.Store, pauseOneIn int) *workload {
	return &workload{w: w, s: s, pauseOneIn: pauseOneIn, start: time.Now(), alive: make(map[string]store.Position), taken: make(map[string]chan struct{})}
}

const (
	workloadWorkers = 12
	workloadClients = 4
	workloadRetries = 3
	workloadPace    = 500 * time.Microsecond // interval between the calls of a client or of an idle worker
	never           = math.MaxInt64          // end of a call if its result was lost
)

// run creates the given number of runs and runs the clients. It stops the clients when all
// runs have ended, after limit, or at the first unexpected error.
func (s *workload) run(runs int, limit time.Duration) {
	s.runs = s.w.home.createMany(runs, retries(workloadRetries))
	ctx, stop := context.WithTimeout(s.w.ctx, limit)
	defer stop()
	var wg sync.WaitGroup
	for i := range workloadWorkers + workloadClients {
		wg.Go(func() {
			if err := s.clientLoop(ctx, i); err != nil {
				s.fail(err)
				stop()
			}
		})
	}
	s.awaitEnds(ctx)
	stop()
	wg.Wait()
}

// clientLoop runs one client until ctx ends.
func (s *workload) clientLoop(ctx context.Context, client int) error {
	r := rand.New(rand.NewPCG(uint64(client), uint64(s.start.UnixNano())))
	pace := time.NewTicker(workloadPace)
	defer pace.Stop()
	idle := ""
	for ctx.Err() == nil {
		var err error
		if client < workloadWorkers {
			idle, err = s.worker(ctx, client, r, idle)
		} else {
			err = s.client(client, r)
		}
		if err != nil {
			return err
		}
		if client >= workloadWorkers || idle != "" {
			<-pace.C
		}
	}
	return nil
}

// awaitEnds waits until all runs have ended or ctx ends.
func (s *workload) awaitEnds(ctx context.Context) {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for open := s.runs; len(open) > 0 && ctx.Err() == nil; {
		status, _, err := s.w.s.RunState(s.w.ctx, open[0])
		switch {
		case err != nil:
			s.fail(err)
			return
		case status.Final():
			open = open[1:]
		default:
			<-again.C
		}
	}
}

func (s *workload) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *workload) clock() int64 { return time.Since(s.start).Nanoseconds() }

func (s *workload) record(client int, began int64, c call, a answer) {
	ended := s.clock()
	if a.unknown {
		ended = never
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, porcupine.Operation{ClientId: client, Input: c, Call: began, Output: a, Return: ended})
}

// worker claims a run and works on it until the worker finishes the run, crashes, or is
// fenced. It claims with the worker ID idle. If idle is empty, it registers a new worker. If
// no run is ready, it returns the ID, which the next call must use. Each worker ID claims at
// most one run, so the end of a lease affects only one run.
func (s *workload) worker(ctx context.Context, client int, r *rand.Rand, idle string) (string, error) {
	if idle == "" {
		idle = s.w.ids.New(stint.PrefixWorker)
		if err := s.s.Register(s.w.ctx, store.Worker{ID: idle, Host: "storm", Capacity: 1, CreatedAt: s.w.now()}, time.Hour); err != nil {
			return "", fmt.Errorf("register: %w", err)
		}
	}
	began := s.clock()
	claims, err := s.s.Claim(s.w.ctx, store.ClaimRequest{WorkerID: idle, Max: 1, At: s.w.now()})
	if err != nil {
		return "", fmt.Errorf("claim: %w", err)
	}
	if len(claims) == 0 {
		return idle, nil
	}
	at := claims[0].Position
	s.record(client, began, call{op: "claim", run: at.RunID}, answer{ok: true, epoch: at.Epoch, head: at.After})
	return "", s.work(ctx, client, r, idle, at, s.hold(idle, at))
}

func (s *workload) work(ctx context.Context, client int, r *rand.Rand, id string, at store.Position, taken <-chan struct{}) error {
	steps := r.IntN(8)
	pauseAt := r.IntN(s.pauseOneIn * (steps + 1)) // the worker pauses before this step, or never if pauseAt is greater than steps
	for step := range steps + 1 {
		if step == pauseAt {
			if err := s.pauseLosingLease(ctx, client, id, at, taken); err != nil {
				return err
			}
		}
		if step == steps {
			break
		}
		next, fenced, err := s.append(client, r, at)
		if err != nil || fenced {
			return err
		}
		at = next
	}
	switch r.IntN(10) {
	case 0: // the worker crashes, but its lease remains valid
		return nil
	case 1, 2: // the worker crashes and its lease ends
		return s.endWorker(client, id, at)
	}
	return s.finish(client, r, at)
}

// pauseLosingLease ends the worker's lease and waits at most 50 ms until another worker
// claims the run. The caller then continues as if the worker still owned the run.
func (s *workload) pauseLosingLease(ctx context.Context, client int, id string, at store.Position, taken <-chan struct{}) error {
	if err := s.endWorker(client, id, at); err != nil {
		return err
	}
	limit := time.NewTimer(50 * time.Millisecond)
	defer limit.Stop()
	select {
	case <-taken:
	case <-limit.C: // the run may have ended, or all other workers are busy
	case <-ctx.Done():
	}
	return nil
}

// hold records that the worker id claimed a run, and closes the channel that hold returned
// for the previous claim of the run. It returns a channel that the next claim closes.
func (s *workload) hold(id string, at store.Position) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive[id] = at
	if before := s.taken[at.RunID]; before != nil {
		close(before)
	}
	taken := make(chan struct{})
	s.taken[at.RunID] = taken
	return taken
}

// lossy returns ctx or, with a probability of 1/6, a context that ends within 0.6 ms, so
// that calls are interrupted at random points.
func lossy(ctx context.Context, r *rand.Rand) (context.Context, context.CancelFunc) {
	if r.IntN(6) == 0 {
		return context.WithTimeout(ctx, time.Duration(r.IntN(600))*time.Microsecond)
	}
	return ctx, func() {}
}

// append sends a batch of one to three events, and sends it again if the result is lost. It
// returns the position after the batch, or reports that the append was fenced.
func (s *workload) append(client int, r *rand.Rand, at store.Position) (next store.Position, fenced bool, err error) {
	b := s.w.batch([]string{"a", "b", "c"}[:1+r.IntN(3)]...)
	c := call{op: "append", run: at.RunID, epoch: at.Epoch, after: at.After, n: int64(len(b.Events)), token: b.Token}
	next = at
	fenced, err = s.send(client, r, c, func(ctx context.Context) (answer, error) {
		head, err := s.s.Append(ctx, at, b)
		next.After = head
		return answer{head: head}, err
	})
	return next, fenced, err
}

func (s *workload) finish(client int, r *rand.Rand, at store.Position) error {
	o := s.w.outcome([]stint.Status{stint.Completed, stint.Failed}[r.IntN(2)])
	c := call{op: "finish", run: at.RunID, epoch: at.Epoch, after: at.After, token: o.Token, status: o.Status}
	_, err := s.send(client, r, c, func(ctx context.Context) (answer, error) {
		run, err := s.s.Finish(ctx, at, o)
		return answer{status: run.Status}, err
	})
	return err
}

// send repeats a call until it receives a result, and records each attempt. The result of an
// attempt is lost if its context ends during the call and, at random, in other cases.
func (s *workload) send(client int, r *rand.Rand, c call, do func(context.Context) (answer, error)) (fenced bool, err error) {
	for {
		ctx, cancel := lossy(s.w.ctx, r)
		began := s.clock()
		a, err := do(ctx)
		cut := err != nil && ctx.Err() != nil && s.w.ctx.Err() == nil
		cancel()
		_, fenced = errors.AsType[*store.FencedError](err)
		switch {
		case err != nil && !fenced && !cut:
			return false, fmt.Errorf("%s: %w", c.op, err)
		case err != nil && !fenced, r.IntN(6) == 0:
			s.record(client, began, c, answer{unknown: true})
			continue
		case fenced:
			a = answer{}
		default:
			a.ok = true
		}
		s.record(client, began, c, a)
		return fenced, nil
	}
}

func (s *workload) endWorker(client int, id string, at store.Position) error {
	began := s.clock()
	if err := s.s.EndWorker(s.w.ctx, id); err != nil {
		return fmt.Errorf("EndWorker: %w", err)
	}
	s.record(client, began, call{op: "end", run: at.RunID, epoch: at.Epoch}, answer{ok: true})
	return nil
}

// client makes one call of a client that is not a worker.
func (s *workload) client(client int, r *rand.Rand) error {
	run := s.runs[r.IntN(len(s.runs))]
	switch r.IntN(16) {
	case 0:
		return s.cancel(client, run)
	case 1, 2, 3:
		return s.endOne(client)
	case 4, 5, 6, 7:
		return s.reap(client)
	default:
		return s.read(client, r, run)
	}
}

func (s *workload) cancel(client int, run string) error {
	began := s.clock()
	_, err := s.s.Cancel(s.w.ctx, s.w.home.org, run, s.w.now())
	a := answer{ok: err == nil, status: stint.Cancelled}
	if state, ok := errors.AsType[*store.StateError](err); ok {
		a.status = state.Status
	} else if err != nil {
		return fmt.Errorf("Cancel: %w", err)
	}
	s.record(client, began, call{op: "cancel", run: run}, a)
	return nil
}

// endOne ends the lease of a random worker that has claimed a run. The worker continues as
// if it still had its lease.
func (s *workload) endOne(client int) error {
	s.mu.Lock()
	for id, at := range s.alive {
		delete(s.alive, id)
		s.mu.Unlock()
		return s.endWorker(client, id, at)
	}
	s.mu.Unlock()
	return nil
}

func (s *workload) reap(client int) error {
	began := s.clock()
	lost, err := s.s.Reap(s.w.ctx, s.w.now(), 10)
	if err != nil {
		return fmt.Errorf("reap: %w", err)
	}
	for _, id := range lost {
		s.record(client, began, call{op: "reap", run: id}, answer{ok: true})
	}
	return nil
}

// read reads the state of a run by RunState, Head, or Events, selected at random.
func (s *workload) read(client int, r *rand.Rand, run string) (err error) {
	var a answer
	ops := []string{"state", "head", "events"}
	op := ops[r.IntN(len(ops))]
	began := s.clock()
	switch op {
	case "state":
		a.status, a.epoch, err = s.s.RunState(s.w.ctx, run)
	case "head":
		a.head, a.status, err = s.s.Head(s.w.ctx, run)
	case "events":
		var events []stint.Event
		if events, err = s.s.Events(s.w.ctx, run, 0, never>>32); err == nil {
			last := events[len(events)-1]
			a.head, a.ok = last.Seq, last.Type == stint.EventComplete
		}
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", op, err)
	}
	s.record(client, began, call{op: op, run: run}, a)
	return nil
}

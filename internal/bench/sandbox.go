package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/pool"
)

// isolation is one isolator that is measured.
type isolation struct {
	app.Isolator
	dir    string
	number *atomic.Int64
}

// benchSandbox measures starts beside those of other ways to isolate a
// program, each in turn with the others.
func (l *lab) benchSandbox(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.sandboxStarts, l.sandboxThroughput, l.sandboxMemory, l.sandboxEcho, l.sandboxEgress} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// withIsolation opens an isolator for f. Where it does not work here that is
// told, and f is not called.
func (l *lab) withIsolation(ctx context.Context, name string, f func(isolation) error) (err error) {
	i, err := l.isolation(ctx, name)
	if err != nil {
		l.add(Row{What: name, Note: "not available here: " + oneLine(err.Error())})
		return nil
	}
	defer func() { err = errors.Join(err, i.close()) }()
	return f(i)
}

func (l *lab) isolation(ctx context.Context, name string) (isolation, error) {
	dir, err := l.folder()
	if err != nil {
		return isolation{}, err
	}
	c := config.Default()
	c.Data = dir
	d, err := app.OpenIsolator(ctx, &c, name)
	if err != nil {
		return isolation{}, errors.Join(err, os.RemoveAll(dir))
	}
	return isolation{Isolator: d, dir: dir, number: new(atomic.Int64)}, nil
}

func (i isolation) close() error { return errors.Join(i.Close(), os.RemoveAll(i.dir)) }

// place lays the folders of a sandbox, and gives what it is prepared with.
func (i isolation) place() (sandbox.Spec, error) {
	id := fmt.Sprintf("bench_%d", i.number.Add(1))
	p, err := pool.MakeDirs(filepath.Join(i.dir, id))
	if err != nil {
		return sandbox.Spec{}, err
	}
	s := p.Spec(id)
	s.Resources = sandbox.Resources{CPU: 2, Memory: 1 << 30, Pids: 512}
	return s, nil
}

// cold is the time from nothing to the end of /bin/true in a sandbox.
func (i isolation) cold(ctx context.Context) (time.Duration, error) {
	s, err := i.place()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	box, err := i.Prepare(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() { _ = box.Close(context.WithoutCancel(ctx)) }()
	if err := box.Start(ctx, sandbox.Command{Argv: []string{"/bin/true"}}); err != nil {
		return 0, err
	}
	if _, err := box.Wait(ctx); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// pooled is the time from the start in a prepared sandbox, with a network, to
// the first byte of its command.
func (i isolation) pooled(ctx context.Context) (time.Duration, error) {
	s, err := i.place()
	if err != nil {
		return 0, err
	}
	s.Network = true
	box, err := i.Prepare(ctx, s)
	if err != nil {
		return 0, err
	}
	defer func() { _ = box.Close(context.WithoutCancel(ctx)) }()
	if n := box.Network(); n != nil {
		defer func() { _ = n.Close() }()
	}
	first := firstWrite{at: make(chan time.Time, 1)}
	start := time.Now()
	if err := box.Attach(ctx, s.Resources, nil); err != nil {
		return 0, err
	}
	if err := box.Start(ctx, sandbox.Command{Argv: []string{"/bin/echo", "hello"}, Stdout: first}); err != nil {
		return 0, err
	}
	if _, err := box.Wait(ctx); err != nil {
		return 0, err
	}
	select {
	case at := <-first.at:
		return at.Sub(start), nil
	default:
		return 0, errors.New("the command wrote nothing")
	}
}

// firstWrite tells when something was written first.
type firstWrite struct{ at chan time.Time }

func (w firstWrite) Write(p []byte) (int, error) {
	select {
	case w.at <- time.Now():
	default:
	}
	return len(p), nil
}

// contestant is something whose duration is measured many times.
type contestant struct {
	what  string
	goals func(Sample) []Goal
	run   func(context.Context) (time.Duration, error)
	took  []time.Duration
}

func medianWithin(limit float64) func(Sample) []Goal {
	return func(s Sample) []Goal { return []Goal{atMost("p50", milliseconds(s.Median()), limit, "ms")} }
}

// sandboxStarts measures all starts in turn, so that all see the same moments
// of the machine.
func (l *lab) sandboxStarts(ctx context.Context) (err error) {
	all := []*contestant{{what: "fork+exec", run: command("/bin/true")}}
	for _, kind := range []struct {
		name         string
		cold, pooled func(Sample) []Goal
	}{{"namespace", medianWithin(8), medianWithin(2)}, {"gvisor", medianWithin(150), medianWithin(8)}} {
		i, err := l.isolation(ctx, kind.name)
		if err != nil {
			l.add(Row{What: kind.name, Note: "not available here: " + oneLine(err.Error())})
			continue
		}
		defer func() { err = errors.Join(err, i.close()) }()
		all = append(all,
			&contestant{what: kind.name + coldStart, run: i.cold, goals: kind.cold},
			&contestant{what: kind.name + ", prepared → first byte", run: i.pooled, goals: kind.pooled})
	}
	dir, err := l.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all = append(all, l.peers(ctx, dir)...)
	if err := inTurn(ctx, all, max(l.a.Samples/10, 5)); err != nil {
		return err
	}
	l.addStarts(all)
	return nil
}

// coldStart is what is measured of a start that nothing was prepared for.
const coldStart = ", cold, /bin/true"

// command measures a program from its start until it is reaped.
func command(argv ...string) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		start := time.Now()
		err := runQuiet(ctx, argv...)
		return time.Since(start), err
	}
}

func inTurn(ctx context.Context, all []*contestant, rounds int) error {
	for round := range rounds + 1 { // the first warms up
		for _, t := range all {
			d, err := t.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", t.what, err)
			}
			if round > 0 {
				t.took = append(t.took, d)
			}
		}
	}
	return nil
}

// addStarts makes rows with fork+exec as the anchor, and holds the namespaces
// to bubblewrap where that is there.
func (l *lab) addStarts(all []*contestant) {
	anchor := latency(SampleOf(all[0].took))
	var cold, bubblewrap Measure
	for _, t := range all[1:] {
		s := SampleOf(t.took)
		row := Row{What: t.what, Measured: latency(s)}
		if t.goals != nil {
			row.Goals = t.goals(s)
		}
		switch t.what {
		case "namespace" + coldStart:
			cold = row.Measured
		case whatBubblewrap:
			bubblewrap = row.Measured
		}
		l.add(row.compare(anchorExec, anchor, row.Measured.P50Ms, anchor.P50Ms))
	}
	if bubblewrap.P50Ms > 0 {
		row := Row{What: "namespace" + coldStart + ", beside bubblewrap", Measured: cold, Goals: []Goal{atMost("", share(cold.P50Ms, bubblewrap.P50Ms), 1, "×")}}
		l.add(row.compare(whatBubblewrap, bubblewrap, cold.P50Ms, bubblewrap.P50Ms))
	}
}

// sandboxThroughput makes sandboxes as fast as it can.
func (l *lab) sandboxThroughput(ctx context.Context) error {
	const callers = 4
	return l.withIsolation(ctx, "namespace", func(ns isolation) error {
		execs, elapsed, err := closedLoop(ctx, callers, l.a.Anchor, func(ctx context.Context, _ int) error {
			return runQuiet(context.WithoutCancel(ctx), "/bin/true")
		})
		if err != nil {
			return err
		}
		n, took, err := closedLoop(ctx, callers, l.a.Each, func(ctx context.Context, _ int) error {
			_, err := ns.cold(context.WithoutCancel(ctx))
			return err
		})
		if err != nil {
			return err
		}
		rate := perSecond(n, took)
		row := Row{What: fmt.Sprintf("namespace sandboxes from nothing to the end, %d at once", callers), Measured: Measure{Rate: rate}, Goals: []Goal{atLeast("", rate, 100, "/s")}}
		l.add(row.compare(fmt.Sprintf("%s, %d at once", anchorExec, callers), Measure{Rate: perSecond(execs, elapsed)}, rate, perSecond(execs, elapsed)))
		return nil
	})
}

// sandboxMemory measures what prepared sandboxes take while they wait.
func (l *lab) sandboxMemory(ctx context.Context) error {
	for _, kind := range []struct {
		name  string
		count int
		goals func(float64) []Goal
	}{
		{"namespace", 50, func(mib float64) []Goal { return []Goal{atMost("", mib, 2, "MiB")} }},
		{"gvisor", 4, func(float64) []Goal { return nil }},
	} {
		err := l.withIsolation(ctx, kind.name, func(i isolation) error {
			each, err := i.idle(ctx, kind.count)
			if err != nil {
				return err
			}
			mib := float64(each) / (1 << 20)
			l.add(Row{What: fmt.Sprintf("memory (PSS) of a prepared %s sandbox, of %d", kind.name, kind.count), Measured: Measure{Value: mib, Unit: "MiB"}, Goals: kind.goals(mib)})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// idle is the memory of each of n prepared sandboxes, in bytes.
func (i isolation) idle(ctx context.Context, n int) (each int64, err error) {
	var boxes []sandbox.Sandbox
	defer func() {
		for _, b := range boxes {
			err = errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
	}()
	before, err := descendants()
	if err != nil {
		return 0, err
	}
	for range n {
		s, err := i.place()
		if err != nil {
			return 0, err
		}
		b, err := i.Prepare(ctx, s)
		if err != nil {
			return 0, err
		}
		boxes = append(boxes, b)
	}
	after, err := descendants()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for pid := range after {
		if !before[pid] {
			total += proportional(pid)
		}
	}
	return total / int64(n), nil
}

// sandboxEcho measures the way of a run with and without sandboxes that wait.
func (l *lab) sandboxEcho(ctx context.Context) error {
	n := max(l.a.Samples/4, 5)
	execs, err := forkExecs(ctx, n)
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		what, parked string
		goal         float64
	}{{"POST → first streamed output, sandbox prepared ahead", "4", 5}, {"POST → first streamed output, sandbox made for the run", "0", 12}} {
		s, err := l.echo(ctx, n, "--parked", kind.parked)
		if err != nil {
			return err
		}
		m, e := latency(s), latency(execs)
		row := Row{What: kind.what, Measured: m, Goals: []Goal{atMost("p50", m.P50Ms, kind.goal, "ms")}}
		l.add(row.compare(anchorExec, e, m.P50Ms, e.P50Ms))
	}
	return nil
}

// lines collects what a command in a sandbox writes.
type lines struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (w *lines) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, p...)
	return len(p), nil
}

// inside runs a program of this binary in a sandbox whose network is given to
// serve, and gives what it wrote.
func (i isolation) inside(ctx context.Context, tools string, serve func(*sandbox.Network) (func(), error), args ...string) (_ []byte, err error) {
	s, err := i.place()
	if err != nil {
		return nil, err
	}
	s.Network, s.Mounts = true, []sandbox.Mount{{Source: tools, Target: guestDir}}
	box, err := i.Prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close(context.WithoutCancel(ctx))) }()
	closeNetwork, err := serve(box.Network())
	if err != nil {
		return nil, err
	}
	defer closeNetwork()
	var out, failed lines
	argv := append([]string{filepath.Join(guestDir, guestProgram), "bench", "host"}, args...)
	if err := box.Start(ctx, sandbox.Command{Argv: argv, Env: []string{"HOME=/home/agent", "PATH=/bin"}, Stdout: &out, Stderr: &failed}); err != nil {
		return nil, err
	}
	exit, err := box.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("in the sandbox: exit code %d: %.300s", exit.Code, failed.buf)
	}
	return out.buf, err
}

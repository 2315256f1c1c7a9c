package bench

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const anchorWrite = "one write(2) for each event and socket"

// What is offered, in terms of the anchor's rate: more than the goal, so that
// the goal can be reached, and not much more, so that reaching it takes work.
const (
	offerBroadcast = 2.2
	offerTopics    = 1.2
)

// readers is n, or less where the system does not allow as many sockets.
func readers(n int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return n
	}
	limit.Cur = limit.Max
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // what counts is asked again
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > uint64(n)+256 {
		return n
	}
	return max(int(limit.Cur)-256, 1)
}

// benchFanout measures how many events a second reach very many readers, and
// what a stream costs in memory.
func (l *lab) benchFanout(ctx context.Context) error {
	f := fanout{l: l, n: readers(l.a.Fanout)}
	before, err := l.rawFanout(ctx, f.n)
	if err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	err = l.withRuns(ctx, f.n, func(host *child, h hosted) error {
		f.host, f.h = host, h
		return f.measure(ctx, before)
	})
	if err != nil {
		return err
	}
	after, err := l.rawFanout(ctx, f.n)
	if err != nil {
		return fmt.Errorf("anchor: %w", err)
	}
	f.report(rawRates{(before.toAll + after.toAll) / 2, (before.toEach + after.toEach) / 2})
	return nil
}

// rawRates are deliveries a second by one write each: of events to all
// sockets, and of events to one socket each.
type rawRates struct{ toAll, toEach float64 }

// rawFanout measures the anchors.
func (l *lab) rawFanout(ctx context.Context, n int) (rates rawRates, err error) {
	err = l.withHost(ctx, func(host *child, h hosted) error {
		s, err := newStreams()
		if err != nil {
			return err
		}
		defer s.close()
		accepted := make(chan error, 1)
		go func() { accepted <- host.obey(ctx, order{Do: doAccept, Streams: n}) }()
		connected := s.connect(ctx, h.Address, n, func(int) []byte { return []byte("GET / HTTP/1.1\r\n\r\n") })
		if connected != nil {
			host.kill() // it would wait for the rest
		}
		if err := <-accepted; connected != nil || err != nil {
			return errors.Join(connected, err)
		}
		all, err := s.follow(ctx, host, order{Do: doBroadcast, For: l.a.Anchor}, n)
		if err != nil {
			return err
		}
		each, err := s.follow(ctx, host, order{Do: doEach, For: l.a.Anchor}, 1)
		rates = rawRates{all.rate(), each.rate()}
		return err
	}, hostRaw)
	return rates, err
}

// obey gives an order that nobody reads the events of.
func (c *child) obey(ctx context.Context, o order) error {
	var answer done
	if err := c.ask(ctx, o, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", o.Do, answer.Error)
	}
	return nil
}

// fanout is a service with a run for each reader, and what was measured of it.
type fanout struct {
	l    *lab
	n    int
	host *child
	h    hosted
	idle int64 // bytes that the service holds without a stream

	kibOne, kibEach      float64 // memory of a stream, when all follow one run and a run each
	one, stored, fed     delivery
	offeredOne, offerFed float64 // events a second
}

// measure opens all streams to one run, then one to each run.
func (f *fanout) measure(ctx context.Context, anchor rawRates) (err error) {
	if f.idle, err = f.memory(ctx); err != nil {
		return err
	}
	toOne := func(int) []byte { return f.h.follow(0) }
	f.kibOne, err = f.with(ctx, toOne, func(s *streams) (err error) {
		f.offeredOne = offerBroadcast * anchor.toAll / float64(f.n)
		f.one, err = s.follow(ctx, f.host, order{Do: doBroadcast, Rate: f.offeredOne, For: f.l.a.Each}, f.n)
		return err
	})
	if err != nil {
		return err
	}
	f.kibEach, err = f.with(ctx, f.h.follow, func(s *streams) (err error) {
		if f.stored, err = s.follow(ctx, f.host, order{Do: doStored, For: f.l.a.Each}, 1); err != nil {
			return err
		}
		// What goes to the feed alone comes last: the journal does not know it.
		f.offerFed = offerTopics * anchor.toEach
		f.fed, err = s.follow(ctx, f.host, order{Do: doFeed, Rate: f.offerFed, For: f.l.a.Each}, 1)
		return err
	})
	return err
}

// memory is what the service holds once it has given back what it does not
// need.
func (f *fanout) memory(ctx context.Context) (int64, error) {
	if err := f.host.obey(ctx, order{Do: doRest}); err != nil {
		return 0, err
	}
	return residentBytes(f.host.cmd.Process.Pid)
}

// with opens the streams for g and returns what one costs, in KiB.
func (f *fanout) with(ctx context.Context, request func(int) []byte, g func(*streams) error) (float64, error) {
	s, err := newStreams()
	if err != nil {
		return 0, err
	}
	defer s.close()
	if err := s.connect(ctx, f.h.Address, f.n, request); err != nil {
		return 0, err
	}
	held, err := f.memory(ctx)
	if err != nil {
		return 0, err
	}
	return float64(held-f.idle) / float64(f.n) / 1024, g(s)
}

func (f *fanout) report(anchor rawRates) {
	one := f.deliveries("one run", f.one, anchor.toAll)
	one.Note = fmt.Sprintf("offered %s events/s, each durable first: %.1f × the anchor in deliveries.", number(f.offeredOne), offerBroadcast)
	one.Goals = []Goal{atLeast("", one.Ratio, 1.8, "×")}
	fed := f.deliveries("a run each", f.fed, anchor.toEach)
	fed.Note = fmt.Sprintf("offered %s events/s, %.1f × the anchor, to the feed alone: the fan-out without the database.", number(f.offerFed), offerTopics)
	fed.Goals = []Goal{atLeast("", fed.Ratio, 1, "×")}
	stored := f.deliveries("a run each, durable first", f.stored, anchor.toEach)
	stored.Note = "limited by the journal, one event an append, on the processors that the streams use too."
	for _, r := range []Row{one, fed, stored, f.memoryOf("one run", f.kibOne), f.memoryOf("a run each", f.kibEach)} {
		f.l.add(r)
	}
}

func (f *fanout) deliveries(of string, got delivery, anchor float64) Row {
	what := fmt.Sprintf("deliveries, %s streams of %s", number(float64(f.n)), of)
	return Row{What: what, Measured: Measure{Rate: got.rate()}}.compare(anchorWrite, Measure{Rate: anchor}, got.rate(), anchor)
}

func (f *fanout) memoryOf(of string, kib float64) Row {
	return Row{
		What:     fmt.Sprintf("memory of a stream, %s streams of %s", number(float64(f.n)), of),
		Measured: Measure{Value: kib, Unit: "KiB"},
		Goals:    []Goal{atMost("", kib, 28, "KiB")},
	}
}

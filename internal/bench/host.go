package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// hosted tells what a host offers, once it does.
type hosted struct {
	Address string   `json:"address"`
	Token   string   `json:"token,omitempty"`
	Runs    []string `json:"runs,omitempty"`
}

// order is what a host is told to do. Rest gives memory back to the system;
// the others publish events.
type order struct {
	Do      string        `json:"do"`
	Rate    float64       `json:"rate,omitempty"` // per second, of each run or in all
	For     time.Duration `json:"for,omitempty"`
	Streams int           `json:"streams,omitempty"` // that the raw host must have
}

// The orders.
const (
	doRest      = "rest"
	doBroadcast = "broadcast" // all events to one run, or from the raw host to all
	doEachRun   = "each-run"  // every run at its own pace
	doStored    = "stored"    // as many as become durable, round robin
	doFeed      = "feed"      // handed to the feed alone, round robin
	doEach      = "each"      // raw: one event to one socket, round robin
	doAccept    = "accept"    // raw: wait for the readers
)

// done is a host's answer to an order.
type done struct {
	Events int    `json:"events"`
	Began  int64  `json:"began"` // Unix nanoseconds
	Error  string `json:"error,omitempty"`
}

// The kinds of hosts.
const (
	hostService = "service" // the service, with runs that it plays the worker of
	hostRaw     = "raw"     // sockets and write(2)
	hostBare    = "bare"    // net/http and a fixed answer
)

// Host is the other end of a measurement, in a process of its own: args are
// the kind and, for the service, the data folder and the number of runs. It
// takes orders as lines of JSON until in ends.
func Host(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say which host")
	}
	if args[0] == hostDial || args[0] == hostFetch {
		return client(args, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	switch kind := args[0]; {
	case kind == hostBare:
		return hostHTTP(listener, http.HandlerFunc(bare), func() error {
			return takeOrders(in, out, hosted{Address: listener.Addr().String()}, nil)
		})
	case kind == hostRaw:
		return (&raw{listener: listener}).host(in, out)
	case kind == hostService && len(args) == 3:
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return hostWorld(ctx, listener, args[1], n, in, out)
	}
	return fmt.Errorf("there is no host %q", args)
}

// hostHTTP serves while f works.
func hostHTTP(l net.Listener, h http.Handler, f func() error) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(l) })
	err := f()
	_ = srv.Close() // streams that go on are cut off
	serving.Wait()
	return err
}

// bareBody is about as long as a run.
var bareBody = func() []byte {
	b := make([]byte, 600)
	for i := range b {
		b[i] = 'x'
	}
	copy(b, `{"text":"`)
	copy(b[len(b)-2:], `"}`)
	return b
}()

func bare(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(bareBody)))
	_, _ = w.Write(bareBody)
}

// takeOrders says what is offered, then obeys.
func takeOrders(in io.Reader, out io.Writer, h hosted, obey func(order) (done, error)) error {
	answers := json.NewEncoder(out)
	if err := answers.Encode(h); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		answer := done{Began: time.Now().UnixNano()}
		var err error
		if o.Do == doRest {
			debug.FreeOSMemory()
		} else {
			began := answer.Began
			answer, err = obey(o)
			answer.Began = began
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// hostWorld serves runs that are running and publishes their events.
func hostWorld(ctx context.Context, l net.Listener, dir string, n int, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := openWorld(ctx, dir, os.Getenv("STINT_DATABASE"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	positions, err := w.running(ctx, n)
	if err != nil {
		return err
	}
	h := hosted{Address: l.Addr().String(), Token: w.token}
	for _, p := range positions {
		h.Runs = append(h.Runs, p.RunID)
	}
	return hostHTTP(l, w.Handler, func() error {
		defer cancel() // ends the streams
		return takeOrders(in, out, h, func(o order) (done, error) { return w.publish(ctx, positions, o) })
	})
}

// frameBytes is the size of the data of a published event.
const frameBytes = 200

func (w *world) publish(ctx context.Context, at []store.Position, o order) (done, error) {
	switch o.Do {
	case doBroadcast:
		n, err := paced(ctx, o.Rate, o.For, func(n int) error { return w.appendTo(ctx, &at[0], n, frameBytes) })
		return done{Events: n}, err
	case doEachRun:
		n, err := w.publishEach(ctx, at, o)
		return done{Events: n}, err
	case doStored:
		return w.publishStored(ctx, at, o.For)
	case doFeed:
		n, err := w.publishFeed(ctx, at, o)
		return done{Events: n}, err
	}
	return done{}, fmt.Errorf("there is no order %q", o.Do)
}

// publishFeed hands events to the feed in turn, as if they had been stored.
func (w *world) publishFeed(ctx context.Context, at []store.Position, o order) (int, error) {
	turn := 0
	return paced(ctx, o.Rate, o.For, func(n int) error {
		for range n {
			p := &at[turn%len(at)]
			turn++
			e := output(frameBytes)
			p.After++
			e.Seq = p.After
			w.journal.keep(p.RunID, e)
			w.Feed.Committed(p.RunID, []stint.Event{e})
		}
		return nil
	})
}

// publishEach lets every run say something at its own pace, the runs spread
// evenly over time.
func (w *world) publishEach(ctx context.Context, at []store.Position, o order) (int, error) {
	counts, errs := make([]int, len(at)), make([]error, len(at))
	every := time.Duration(float64(time.Second) / o.Rate)
	var wg sync.WaitGroup
	for i := range at {
		wg.Go(func() {
			time.Sleep(every * time.Duration(i) / time.Duration(len(at)))
			counts[i], errs[i] = paced(ctx, o.Rate, o.For, func(n int) error { return w.appendTo(ctx, &at[i], n, frameBytes) })
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, errors.Join(errs...)
}

// publishStored appends to all runs in turn, as fast as it goes.
func (w *world) publishStored(ctx context.Context, at []store.Position, d time.Duration) (done, error) {
	const writers = 64
	turns := make([]int, writers)
	n, _, err := closedLoop(ctx, min(writers, len(at)), d, func(_ context.Context, i int) error {
		next := turns[i]*writers + i
		if next >= len(at) {
			next, turns[i] = i, 0
		}
		turns[i]++
		return w.appendTo(ctx, &at[next], 1, frameBytes)
	})
	return done{Events: n}, err
}

// mostAtOnce is how many events a worker appends in one step.
const mostAtOnce = 512

// paced has f make rate events a second for d, and returns how many there
// were. What is due together is made in one call, as a worker appends in one
// step what its agent has said meanwhile.
func paced(ctx context.Context, rate float64, d time.Duration, f func(n int) error) (int, error) {
	begin := time.Now()
	for made := 0; ; {
		elapsed := time.Since(begin)
		if elapsed >= d {
			return made, nil
		}
		due := int(elapsed.Seconds()*rate) + 1 - made
		if due <= 0 {
			next := time.Duration(float64(made) / rate * float64(time.Second))
			time.Sleep(max(min(next, d)-elapsed, 10*time.Microsecond))
			continue
		}
		if err := ctx.Err(); err != nil {
			return made, err
		}
		n := min(due, mostAtOnce)
		if err := f(n); err != nil {
			return made, err
		}
		made += n
	}
}

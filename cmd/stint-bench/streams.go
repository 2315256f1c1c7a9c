package main

import (
	"bufio"
	"bytes"
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
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Each published event contains the mark, which occurs nowhere else, and then the
// time of its creation.
const (
	mark        = '~'
	momentBytes = 19
)

// streams are readers of event streams, with one goroutine each that only looks
// for marks. What it costs is part of the results and of their anchors.
type streams struct {
	conns   []net.Conn
	readers sync.WaitGroup
	ready   atomic.Int64 // streams that have shown their run as running
	events  atomic.Int64
	last    atomic.Int64 // when the newest event was read, in Unix nanoseconds
	ended   atomic.Bool  // a stream ended
	timed   atomic.Bool  // whether to measure each event

	mu   sync.Mutex // guards took
	took []time.Duration
}

// open opens n streams and waits until each shows its run as running. They are
// closed after the scenario, or before by close.
func (l *lab) open(ctx context.Context, address string, n int, request func(i int) string) *streams {
	s := &streams{}
	l.cleanup(func() error { s.close(); return nil })
	for i := range n {
		c := must(new(net.Dialer).DialContext(ctx, "tcp", address))
		s.conns = append(s.conns, c)
		must(io.WriteString(c, request(i)))
		s.readers.Go(func() { s.read(c) })
	}
	s.wait(ctx, &s.ready, n)
	return s
}

func (s *streams) close() {
	for _, c := range s.conns {
		c.Close()
	}
	s.readers.Wait()
}

// wait waits until the counter is at least n.
func (s *streams) wait(ctx context.Context, counter *atomic.Int64, n int) {
	for deadline := time.Now().Add(2 * patience); counter.Load() < int64(n); time.Sleep(time.Millisecond) {
		check(ctx.Err())
		if s.ended.Load() || time.Now().After(deadline) {
			check(fmt.Errorf("%d of %d came; a stream has ended: %t", counter.Load(), n, s.ended.Load()))
		}
	}
}

func (s *streams) read(c net.Conn) {
	defer s.ended.Store(true)
	r := bufio.NewReader(c)
	for ready := false; !ready; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		ready = bytes.Contains(line, []byte(`"running"`))
	}
	s.ready.Add(1)
	for {
		switch _, err := r.ReadSlice(mark); {
		case err == nil:
			s.count(r)
		case !errors.Is(err, bufio.ErrBufferFull):
			return
		}
	}
}

func (s *streams) count(r *bufio.Reader) {
	now := time.Now().UnixNano()
	if s.timed.Load() {
		text, _ := r.Peek(momentBytes) // read notices the end
		made, err := strconv.ParseInt(string(text), 10, 64)
		if err == nil {
			s.mu.Lock()
			s.took = append(s.took, time.Duration(now-made))
			s.mu.Unlock()
		}
	}
	s.last.Store(now)
	s.events.Add(1)
}

// follow lets the host publish, waits until each event has reached as many streams
// as there are copies, and returns the deliveries a second until the last one.
func (s *streams) follow(ctx context.Context, h *hosted, o order, copies int) float64 {
	s.events.Store(0)
	begin := time.Now()
	n := h.publish(ctx, o) * copies
	s.wait(ctx, &s.events, n)
	return float64(n) / time.Unix(0, s.last.Load()).Sub(begin).Seconds()
}

// stream measures how long events take from the worker that appends them, through
// a commit, to the readers of many runs.
func (l *lab) stream(ctx context.Context) {
	const perRun = 5 // events a second
	disk, n := l.durableWrites(ctx), l.streams
	h := l.host(ctx, n)
	s := l.open(ctx, h.Address, n, h.events)
	s.follow(ctx, h, order{Do: doAppend, Runs: n, Rate: 1, For: time.Second}, 1) // warm up
	s.timed.Store(true)
	rate := s.follow(ctx, h, order{Do: doAppend, Runs: n, Rate: perRun, For: 2 * l.each}, 1)
	m := latency(s.took)
	m.Rate = rate
	l.add(compare(fmt.Sprintf("append → reader, %s runs with a stream and %d events/s each", number(float64(n)), perRun), m, anchorDurable, disk),
		atMost("p50", m.P50Ms, 2, "ms"), atMost("p99", m.P99Ms, 15, "ms"))
}

// The offered rates of the fan-out as multiples of the anchor's: above the goals,
// but not far. A reader must not fall behind the feed's ring, because events that
// are given to the feed only are not in the journal.
const (
	offerToOne  = 2.2
	offerToFeed = 1.2
	ringEvents  = 48 // of each run at most, less than the ring of the feed
)

// fanout measures how many events a second reach very many readers, and the memory
// of a stream.
func (l *lab) fanout(ctx context.Context) {
	n := l.fanoutStreams
	h := l.host(ctx, n)
	idle := h.rest(ctx)
	before := l.rawFanout(ctx, h, n)

	s := l.open(ctx, h.Address, n, func(int) string { return h.events(0) })
	kibOne := (h.rest(ctx) - idle) / float64(n) / 1024
	one := s.follow(ctx, h, order{Do: doAppend, Runs: 1, Rate: offerToOne * before / float64(n), For: l.each}, n)
	s.close()

	s = l.open(ctx, h.Address, n, h.events)
	kibEach := (h.rest(ctx) - idle) / float64(n) / 1024
	rate := offerToFeed * before
	enough := time.Duration(ringEvents * float64(n) / rate * float64(time.Second))
	fed := s.follow(ctx, h, order{Do: doFeed, Rate: rate, For: min(l.each, enough)}, 1) // the journal ends before
	s.close()

	anchor := (before + l.rawFanout(ctx, h, n)) / 2
	for _, r := range []struct {
		of              string
		rate, goal, kib float64
	}{{"one run", one, 1.8, kibOne}, {"a run each", fed, 1, kibEach}} {
		row := compare(fmt.Sprintf("deliveries, %s streams of %s", number(float64(n)), r.of), Measure{Rate: r.rate},
			"one write(2) for each event and socket", Measure{Rate: anchor})
		l.add(row, atLeast("", row.Ratio, r.goal, "×"))
		l.add(Row{What: "memory of a stream of " + r.of, Measured: Measure{Value: r.kib, Unit: "KiB"}}, atMost("", r.kib, 28, "KiB"))
	}
}

// rawFanout returns deliveries a second with one write for each event and socket.
func (l *lab) rawFanout(ctx context.Context, h *hosted, n int) float64 {
	s := l.open(ctx, h.Address, n, func(int) string { return "GET /raw HTTP/1.1\r\nHost: bench\r\n\r\n" })
	rate := s.follow(ctx, h, order{Do: doRaw, For: l.anchor}, 1)
	s.close()
	h.rest(ctx)
	return rate
}

// partners are the other ends of measurements. They are this program in another
// process, with the name as the first argument.
var partners = map[string]func(ctx context.Context, args []string, out io.Writer){
	"host":   serveHost,
	"client": runClient,
}

// order asks a host to publish events.
type order struct {
	Do   string
	Runs int     // to which events are appended
	Rate float64 // per second, of each run or in all
	For  time.Duration
}

// The orders.
const (
	doRest   = "rest"   // publish nothing: close raw sockets and return memory to the system
	doAppend = "append" // to the first runs, each at its own pace
	doFeed   = "feed"   // given to the feed only, of the runs in turn
	doRaw    = "raw"    // to one raw socket each, in turn
)

// hosted is a host in a child process.
type hosted struct {
	*child  `json:"-"`
	Address string
	Token   string
	Runs    []string
}

// host starts a host with n running runs.
func (l *lab) host(ctx context.Context, n int) *hosted {
	h := &hosted{}
	h.child = l.spawn(ctx, h, l.self, "host", l.folder(), strconv.Itoa(n))
	return h
}

// publish returns the number of published events.
func (h *hosted) publish(ctx context.Context, o order) (n int) {
	body := do(ctx, http.StatusOK, http.MethodPost, "http://"+h.Address+"/publish", "", string(must(json.Marshal(o))))
	check(json.Unmarshal(body, &n))
	return n
}

// rest returns the memory of the host after a garbage collection, in bytes.
func (h *hosted) rest(ctx context.Context) float64 {
	h.publish(ctx, order{Do: doRest})
	return h.memory()
}

// events returns the request for the stream of a run.
func (h *hosted) events(i int) string {
	return fmt.Sprintf("GET /v1/runs/%s/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", h.Runs[i], h.Token)
}

// publisher is the host's side: a world with running runs, and sockets to which it
// writes events itself. That is the least that streams could cost: one write(2)
// for each event and socket, by one goroutine.
type publisher struct {
	*world
	runs []store.Position

	mu  sync.Mutex // guards raw
	raw []net.Conn
}

// serveHost serves until ctx ends: FOLDER RUNS.
func serveHost(ctx context.Context, args []string, out io.Writer) {
	n := must(strconv.Atoi(args[1]))
	w := openWorld(ctx, args[0], os.Getenv("STINT_DATABASE"))
	p := &publisher{world: w, runs: w.claimRuns(ctx, n)}
	mux := http.NewServeMux()
	mux.Handle("/v1/", w.handler)
	mux.HandleFunc("/bare", bare)
	mux.HandleFunc("/raw", p.accept)
	mux.HandleFunc("/publish", p.publish)
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: patience, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	h := hosted{Address: l.Addr().String(), Token: w.token}
	for _, at := range p.runs {
		h.Runs = append(h.Runs, at.RunID)
	}
	check(json.NewEncoder(out).Encode(h))
	_ = srv.Serve(l) // until Close
	check(w.close())
}

// bareBody is about as long as a run.
var bareBody = fmt.Appendf(nil, `{"text":"%s"}`, bytes.Repeat([]byte{'x'}, 589))

func bare(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(bareBody)))
	_, _ = w.Write(bareBody)
}

func (p *publisher) accept(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: status\ndata: {\"status\":\"running\"}\n\n")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.raw = append(p.raw, c)
}

func (p *publisher) publish(w http.ResponseWriter, r *http.Request) {
	err := catch(func() {
		var o order
		check(json.NewDecoder(r.Body).Decode(&o))
		fmt.Fprint(w, p.obey(r.Context(), o))
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

const eventBytes = 200 // of the data of a published event

func (p *publisher) obey(ctx context.Context, o order) int {
	switch o.Do {
	case doAppend:
		return p.appendEach(ctx, o)
	case doFeed:
		turn := 0
		return paced(ctx, o.Rate, o.For, func(n int) {
			for range n {
				p.feedOnly(&p.runs[turn%len(p.runs)])
				turn++
			}
		})
	case doRaw:
		return p.write(o)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.raw {
		c.Close()
	}
	p.raw = nil
	debug.FreeOSMemory()
	return 0
}

// appendEach appends to each run at its own pace, the runs spread over time.
func (p *publisher) appendEach(ctx context.Context, o order) int {
	var total atomic.Int64
	concurrently(ctx, o.Runs, func(ctx context.Context, i int) {
		time.Sleep(time.Duration(float64(time.Second) / o.Rate * float64(i) / float64(o.Runs)))
		n := paced(ctx, o.Rate, o.For, func(n int) { p.append(ctx, &p.runs[i], n, eventBytes) })
		total.Add(int64(n))
	})
	return int(total.Load())
}

// feedOnly gives an event to the feed as if it had been stored.
func (p *publisher) feedOnly(at *store.Position) {
	e := output(eventBytes)
	at.After++
	e.Seq = at.After
	p.feed.Committed(at.RunID, []stint.Event{e})
}

// write writes events to raw sockets.
func (p *publisher) write(o order) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for begin := time.Now(); time.Since(begin) < o.For; n++ {
		must(fmt.Fprintf(p.raw[n%len(p.raw)], "event: output\ndata: %s\nid: %d\n\n", output(eventBytes).Data, n))
	}
	return n
}

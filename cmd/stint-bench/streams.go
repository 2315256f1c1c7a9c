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

// Each published event contains the mark, which occurs nowhere else in a stream, and
// then the time of its creation in Unix nanoseconds, as momentBytes digits.
const (
	mark        = '~'
	momentBytes = 19
)

// streams reads event streams. Each stream has a goroutine that only searches for
// marks. The cost of these goroutines is part of the results and of the anchors.
type streams struct {
	conns   []net.Conn
	readers sync.WaitGroup
	ready   atomic.Int64 // streams that have shown their run as running
	events  atomic.Int64
	last    atomic.Int64 // when the newest event was read, in Unix nanoseconds
	ended   atomic.Bool  // a stream has ended
	timed   atomic.Bool  // whether to add the delay of each event to took

	mu   sync.Mutex // guards took
	took []time.Duration
}

// open opens n streams and waits until each shows its run as running. request(i) is the
// HTTP request of stream i. The streams are closed by close, or else after the scenario.
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

// wait waits until the counter is at least n. It fails if a stream ends, or after two
// times patience.
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
		text, _ := r.Peek(momentBytes) // at the end of the stream, the next ReadSlice in read fails
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

// follow makes the host publish events, and waits until each event has reached the
// given number of streams (copies). It returns the deliveries per second, from the
// order to the last delivery.
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

// The rates at which fanout publishes, as multiples of the anchor's rate. They are
// slightly above the goals. In the scenario with a run for each stream, readers must
// not fall behind the feed's ring, because the events are only given to the feed and
// cannot be read from the journal.
const (
	offerToOne  = 2.2 // all streams follow one run
	offerToFeed = 1.2 // each stream follows its own run
	ringEvents  = 48  // maximum number of events of a run, less than the feed's ring holds
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
	fed := s.follow(ctx, h, order{Do: doFeed, Rate: rate, For: min(l.each, enough)}, 1) // these events are not in the journal
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

// rawFanout measures the anchor of fanout: the deliveries per second if each event is
// one write(2) to one socket.
func (l *lab) rawFanout(ctx context.Context, h *hosted, n int) float64 {
	s := l.open(ctx, h.Address, n, func(int) string { return "GET /raw HTTP/1.1\r\nHost: bench\r\n\r\n" })
	rate := s.follow(ctx, h, order{Do: doRaw, For: l.anchor}, 1)
	s.close()
	h.rest(ctx)
	return rate
}

// partners contains the functions that scenarios call in a child process. The child
// process is this program with the key of the function as its first argument.
var partners = map[string]func(ctx context.Context, args []string, out io.Writer){
	"host":   serveHost,
	"client": runClient,
}

// order asks a host to publish events.
type order struct {
	Do   string
	Runs int     // number of runs to append to
	Rate float64 // events per second: of each run for doAppend, in total for doFeed
	For  time.Duration
}

// The values of order.Do.
const (
	doRest   = "rest"   // publish nothing: close raw sockets and return memory to the system
	doAppend = "append" // append to the first order.Runs runs, to each at its own pace
	doFeed   = "feed"   // give events to the feed without storing them, for all runs in turn
	doRaw    = "raw"    // write each event to one raw socket, to all sockets in turn
)

// hosted is a host, the child process that publishes events (see serveHost).
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

// publish sends an order to the host and returns the number of published events.
func (h *hosted) publish(ctx context.Context, o order) (n int) {
	body := do(ctx, http.StatusOK, http.MethodPost, "http://"+h.Address+"/publish", "", string(must(json.Marshal(o))))
	check(json.Unmarshal(body, &n))
	return n
}

// rest makes the host close its raw sockets and collect garbage, and returns the host's
// memory in bytes.
func (h *hosted) rest(ctx context.Context) float64 {
	h.publish(ctx, order{Do: doRest})
	return h.memory()
}

// events returns the HTTP request for the event stream of run i.
func (h *hosted) events(i int) string {
	return fmt.Sprintf("GET /v1/runs/%s/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", h.Runs[i], h.Token)
}

// publisher is the state of a host: a world with running runs, and raw sockets to which
// the host writes events directly. Raw sockets show the minimum cost of streams: one
// write(2) for each event and socket, by one goroutine.
type publisher struct {
	*world
	runs []store.Position

	mu  sync.Mutex // guards raw
	raw []net.Conn
}

// serveHost runs a host until ctx ends. args are the data folder and the number of runs.
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
	_ = srv.Serve(l) // returns after Close
	check(w.close())
}

// bareBody is about as long as the JSON of a run.
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
	p.mu.Lock() // until the socket is in the list, because the client may publish as soon as it has the response
	defer p.mu.Unlock()
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: status\ndata: {\"status\":\"running\"}\n\n")
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

// appendEach appends events to the first o.Runs runs, to each at its own pace. The first
// appends of the runs are spread over one interval. It returns the number of events.
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

// write writes events to the raw sockets in turn for o.For and returns their number.
func (p *publisher) write(o order) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for begin := time.Now(); time.Since(begin) < o.For; n++ {
		must(fmt.Fprintf(p.raw[n%len(p.raw)], "event: output\ndata: %s\nid: %d\n\n", output(eventBytes).Data, n))
	}
	return n
}

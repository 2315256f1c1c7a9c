package apitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// Bounds of a walk.
const (
	defaultRequests = 1500
	maxFaults       = 20
	answerWithin    = time.Minute            // else it counts as hanging
	listenFor       = 200 * time.Millisecond // to a stream that does not end
	maxRead         = 32 << 20
)

// Seeds is what a walk may start from. All of it is optional: what the answers
// name is walked on to.
type Seeds struct {
	IDs   []string // of runs, agents, artifacts …, of versions, of any kind; none of them is deleted
	Names []string // of agents that runs may start; the prompt is "true"
	Paths []string // of files in versions

	Requests int    // how many to send; 1500 when 0
	Seed     uint64 // of the generator
}

// Report counts the answers of a walk: operation ID to status to number.
// Requests to unknown paths and methods count under the empty ID.
type Report map[string]map[int]int

// Walk sends requests to every operation of the API document, valid, odd and
// hostile ones, and demands of each answer what Client demands: never a status
// of 500 or more, always a documented one, always the one error body. What is
// certainly wrong must be refused with a status of 400 to 499.
//
// The token is one that may do everything. The walk creates and deletes things
// in its organisation, but deletes only what it has created. With the same
// seeds and a server that answers the same it sends the same.
func Walk(t testing.TB, baseURL, token string, seeds Seeds) Report {
	t.Helper()
	next := http.DefaultTransport.(*http.Transport).Clone()
	next.DisableCompression = true
	defer next.CloseIdleConnections()
	w := newWalk(t, baseURL, token, seeds)
	w.client = &http.Client{
		Transport:     &transport{doc: w.doc, next: next, report: w.tell},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	requests := seeds.Requests
	if requests == 0 {
		requests = defaultRequests
	}
	for w.number = range requests {
		if w.faults >= maxFaults {
			t.Errorf("walk: stopped after %d faults", w.faults)
			break
		}
		w.step()
	}
	w.demandProgress()
	return w.report
}

type walk struct {
	t      testing.TB
	doc    *document
	client *http.Client
	base   string
	token  string
	seed   uint64
	rng    *rand.Rand
	places []place
	pool   *pool
	report Report
	turns  map[string]int // see next

	number int    // of the request
	what   string // it does
	faults int
}

// place is an operation with its path.
type place struct {
	route  *route
	method string
	op     *openapi3.Operation
}

func newWalk(t testing.TB, baseURL, token string, seeds Seeds) *walk {
	w := &walk{
		t: t, doc: promised(), base: strings.TrimSuffix(baseURL, "/"), token: token, seed: seeds.Seed,
		rng: rand.New(rand.NewPCG(seeds.Seed, 0x5745)), pool: newPool(seeds), report: Report{}, turns: map[string]int{},
	}
	for i := range w.doc.routes {
		r := &w.doc.routes[i]
		operations := r.item.Operations()
		methods := make([]string, 0, len(operations))
		for m := range operations {
			methods = append(methods, m)
		}
		slices.Sort(methods)
		for _, m := range methods {
			w.places = append(w.places, place{r, m, operations[m]})
		}
	}
	return w
}

func (w *walk) tell(f *Fault) error {
	w.faults++
	w.t.Errorf("walk with seed %d, request %d (%s): %v", w.seed, w.number, w.what, f)
	return nil
}

// shot is a request in the making.
type shot struct {
	place   place
	round   int // how often the operation had its turn before
	method  string
	path    string // escaped
	query   []string
	header  http.Header
	body    []byte
	hostile bool // not a request that the document allows
	refused bool // certainly wrong: the answer must be 400 to 499
	large   bool // so large that the server may hang up while it is sent
	notes   []string
}

func (s *shot) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// wrong marks the shot as hostile; certainly, if the answer must refuse it.
func (s *shot) wrong(certainly bool, format string, args ...any) {
	s.hostile = true
	s.refused = s.refused || certainly
	s.note(format, args...)
}

func (w *walk) step() {
	s := w.aim()
	w.what = strings.Join(s.notes, ", ")
	ctx, cancel := context.WithTimeout(w.t.Context(), answerWithin)
	defer cancel()
	if s.hostile {
		ctx = Hostile(ctx)
	}
	req, err := s.request(ctx, w.base)
	if err != nil {
		w.t.Fatalf("walk, request %d (%s): %v", w.number, w.what, err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if !s.large { // a server may hang up on those before all was sent
			_ = w.tell(&Fault{Method: s.method, Path: s.path, Reasons: []string{err.Error()}})
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	w.count(s, resp.StatusCode)
	if s.refused && (resp.StatusCode < 400 || resp.StatusCode >= 500) {
		_ = w.tell(&Fault{Method: s.method, Path: req.URL.RequestURI(), Reasons: []string{
			fmt.Sprintf("the status is %d for what must be refused", resp.StatusCode),
		}})
	}
	w.read(s, resp, cancel)
}

func (s *shot) request(ctx context.Context, base string) (*http.Request, error) {
	raw := base + s.path
	if len(s.query) > 0 {
		raw += "?" + strings.Join(s.query, "&")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("make the address: %w", err)
	}
	var sent io.Reader = http.NoBody
	if s.body != nil {
		sent = strings.NewReader(string(s.body))
	}
	req, err := http.NewRequestWithContext(ctx, s.method, base, sent)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.URL, req.Header = u, s.header
	return req, nil
}

// read drains the answer and learns from it. To an event stream it listens for
// a moment only.
func (w *walk) read(s *shot, resp *http.Response, cancel func()) {
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		timer := time.AfterFunc(listenFor, cancel)
		defer timer.Stop()
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil && !errors.Is(err, context.Canceled) {
		_ = w.tell(&Fault{Method: s.method, Path: s.path, Reasons: []string{"reading the answer: " + err.Error()}})
		return
	}
	if resp.StatusCode < 400 {
		w.pool.learn(s, resp, raw)
	}
}

func (w *walk) count(s *shot, status int) {
	id := ""
	if s.place.op != nil {
		id = s.place.op.OperationID
	}
	if w.report[id] == nil {
		w.report[id] = map[int]int{}
	}
	w.report[id][status]++
}

// demandProgress fails a walk that never got past the door: one that only saw
// 401 and 429 has proved nothing.
func (w *walk) demandProgress() {
	all, turned := 0, 0
	for id, statuses := range w.report {
		if id == "" {
			continue
		}
		for status, n := range statuses {
			all += n
			if status == http.StatusUnauthorized || status == http.StatusTooManyRequests {
				turned += n
			}
		}
	}
	if turned*2 > all {
		w.t.Errorf("walk: %d of %d requests were turned away with 401 or 429", turned, all)
	}
}

// next gives the values of a list in turn, so that a walk that is long enough
// leaves none out.
func next[T any](w *walk, list string, values ...T) T {
	turn, begun := w.turns[list]
	if !begun {
		turn = w.rng.IntN(len(values))
	}
	w.turns[list] = turn + 1
	return values[turn%len(values)]
}

// one picks one of the values.
func one[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// chance is true in percent of 100 cases.
func (w *walk) chance(percent int) bool { return w.rng.IntN(100) < percent }

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

// Limits of a walk.
const (
	defaultRequests = 1500
	maxFaults       = 20
	answerWithin    = time.Minute            // maximum duration of an exchange; a slower exchange is a fault
	listenFor       = 200 * time.Millisecond // time after which the walk stops reading an event stream
	maxRead         = 32 << 20               // maximum bytes that the walk reads from a response
)

// Seeds are the values with which a walk starts. All fields are optional, because the
// walk also uses values that it finds in responses.
type Seeds struct {
	IDs   []string // IDs of resources and versions of any kind; the walk does not delete these
	Names []string // names of agents; the walk creates runs of these agents with the prompt "true"
	Paths []string // paths of files in versions of artifacts and volumes

	Requests int    // number of requests; 0 means 1500
	Seed     uint64 // seed of the random number generator
}

// Report contains the number of responses that a walk received, by operation ID and
// status. Responses to requests with an unknown path or method are counted under the
// empty ID.
type Report map[string]map[int]int

// Walk sends valid, odd, and hostile requests to every operation of the API document
// and checks each response like Client: the status is documented and below 500, and
// errors have the documented body. The response to a request that is certainly invalid
// must have a status from 400 to 499.
//
// The token must have all permissions. The walk creates resources in the token's
// organisation and deletes only some of them. With the same seeds and responses, the
// walk sends the same requests.
func Walk(t testing.TB, baseURL, token string, seeds Seeds) Report {
	t.Helper()
	next := http.DefaultTransport.(*http.Transport).Clone()
	next.DisableCompression = true
	defer next.CloseIdleConnections()
	w := newWalk(t, baseURL, token, seeds)
	w.client = &http.Client{
		Transport:     &transport{doc: w.doc, next: next, report: w.reportFault},
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
	w.checkProgress()
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
	turns  map[string]int // index of the value that the function next returns next, by list name

	number int    // number of the current request, from 0
	what   string // description of the current request
	faults int
}

// place is an operation with its path and method.
type place struct {
	route  *route
	method string
	op     *openapi3.Operation
}

func newWalk(t testing.TB, baseURL, token string, seeds Seeds) *walk {
	w := &walk{
		t: t, doc: embedded(), base: strings.TrimSuffix(baseURL, "/"), token: token, seed: seeds.Seed,
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

func (w *walk) reportFault(f *Fault) error {
	w.faults++
	w.t.Errorf("walk with seed %d, request %d (%s): %v", w.seed, w.number, w.what, f)
	return nil
}

// draft is a request that is being built.
type draft struct {
	place   place
	round   int // number of earlier drafts for the operation
	method  string
	path    string // escaped
	query   []string
	header  http.Header
	body    []byte
	hostile bool // the request may violate the document, so only the response is checked
	refused bool // the status of the response must be 400 to 499
	large   bool // the server may close the connection before it has read the request
	notes   []string
}

func (s *draft) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// wrong marks the request as hostile and describes its fault in a note. If certainly is
// true, the server must refuse the request.
func (s *draft) wrong(certainly bool, format string, args ...any) {
	s.hostile = true
	s.refused = s.refused || certainly
	s.note(format, args...)
}

func (w *walk) step() {
	s := w.draft()
	w.what = strings.Join(s.notes, ", ")
	ctx, cancel := context.WithTimeout(w.t.Context(), answerWithin)
	defer cancel()
	if s.hostile {
		ctx = AllowInvalid(ctx)
	}
	req, err := s.request(ctx, w.base)
	if err != nil {
		w.t.Fatalf("walk, request %d (%s): %v", w.number, w.what, err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if !s.large { // while a large request is sent, the server may close the connection
			_ = w.reportFault(&Fault{Method: s.method, Path: s.path, Reasons: []string{err.Error()}})
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	w.count(s, resp.StatusCode)
	if s.refused && (resp.StatusCode < 400 || resp.StatusCode >= 500) {
		_ = w.reportFault(&Fault{Method: s.method, Path: req.URL.RequestURI(), Reasons: []string{
			fmt.Sprintf("the status is %d for a request that must be refused", resp.StatusCode),
		}})
	}
	w.read(s, resp, cancel)
}

func (s *draft) request(ctx context.Context, base string) (*http.Request, error) {
	raw := base + s.path
	if len(s.query) > 0 {
		raw += "?" + strings.Join(s.query, "&")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing the URL: %w", err)
	}
	var sent io.Reader = http.NoBody
	if s.body != nil {
		sent = strings.NewReader(string(s.body))
	}
	req, err := http.NewRequestWithContext(ctx, s.method, base, sent)
	if err != nil {
		return nil, fmt.Errorf("creating the request: %w", err)
	}
	req.URL, req.Header = u, s.header
	return req, nil
}

// read reads the response and adds the values in a successful response to the pool. It
// reads an event stream only for the time listenFor.
func (w *walk) read(s *draft, resp *http.Response, cancel func()) {
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		timer := time.AfterFunc(listenFor, cancel)
		defer timer.Stop()
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil && !errors.Is(err, context.Canceled) {
		_ = w.reportFault(&Fault{Method: s.method, Path: s.path, Reasons: []string{"reading the response: " + err.Error()}})
		return
	}
	if resp.StatusCode < 400 {
		w.pool.learn(s, resp, raw)
	}
}

func (w *walk) count(s *draft, status int) {
	id := ""
	if s.place.op != nil {
		id = s.place.op.OperationID
	}
	if w.report[id] == nil {
		w.report[id] = map[int]int{}
	}
	w.report[id][status]++
}

// checkProgress fails the test if most responses had the status 401 or 429, because such
// responses do not test the operations.
func (w *walk) checkProgress() {
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
		w.t.Errorf("walk: %d of %d requests had the status 401 or 429", turned, all)
	}
}

// next returns one of the values. Calls with the same list name return the values in
// turn, beginning with a random value, so that a long walk uses all values.
func next[T any](w *walk, list string, values ...T) T {
	turn, begun := w.turns[list]
	if !begun {
		turn = w.rng.IntN(len(values))
	}
	w.turns[list] = turn + 1
	return values[turn%len(values)]
}

// one returns a random value.
func one[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// chance returns true with the given probability in percent.
func (w *walk) chance(percent int) bool { return w.rng.IntN(100) < percent }

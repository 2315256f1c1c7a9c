package apitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

type contextKey int

const (
	hostileKey contextKey = iota
	failingKey
)

// Hostile marks requests of ctx as wrong on purpose: they are not checked,
// their answers are.
func Hostile(ctx context.Context) context.Context {
	return context.WithValue(ctx, hostileKey, true)
}

// Failing marks requests of ctx as such that a status of 500 or more is
// expected. It is a fault elsewhere. The answer's form is checked all the same.
func Failing(ctx context.Context) context.Context {
	return context.WithValue(ctx, failingKey, true)
}

func marked(ctx context.Context, key contextKey) bool {
	is, _ := ctx.Value(key).(bool)
	return is
}

// Client is an HTTP client whose every exchange is checked; a fault fails the
// test with the method, the path and the reason. The exchange itself goes on
// as it is. Connections are closed at the end of the test.
func Client(t testing.TB) *http.Client {
	t.Helper()
	next := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(next.CloseIdleConnections)
	return &http.Client{Transport: Reporting(t, next)}
}

// Reporting checks every exchange of next and reports faults to t. It is safe
// for concurrent use. Streams that are still open must be closed before the
// test ends.
func Reporting(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return &transport{doc: promised(), next: next, report: func(f *Fault) error {
		t.Errorf("%v", f)
		return nil
	}}
}

// Transport checks every exchange of next, for places that have no test at
// hand: an exchange with a fault fails with a *Fault, be it from RoundTrip or,
// for an event stream, from reading its body. It is safe for concurrent use.
func Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{doc: promised(), next: next, report: func(f *Fault) error { return f }}
}

// Check checks one exchange that has taken place. The body of the answer can
// be read afterwards; that of a request is checked when req.GetBody is set.
func Check(t testing.TB, req *http.Request, resp *http.Response) {
	t.Helper()
	x := &exchange{doc: promised(), req: req, report: func(f *Fault) error {
		t.Errorf("%v", f)
		return nil
	}}
	x.target = x.doc.find(req)
	var sent io.Reader
	if req.GetBody != nil {
		again, err := req.GetBody()
		if err != nil {
			t.Fatalf("body of the request: %v", err)
		}
		sent = again
	}
	x.checkRequest(sent)
	x.checkAnswer(resp)
	_ = x.flush()
}

// Fault is an exchange that breaks the API document.
type Fault struct {
	Method, Path string
	Reasons      []string
}

// Error names the exchange and every reason.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s %s: %s", f.Method, f.Path, strings.Join(f.Reasons, "; "))
}

type transport struct {
	doc    *document
	next   http.RoundTripper
	report func(*Fault) error
}

// RoundTrip sends the request and checks both sides.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if leaves(req) {
		return t.next.RoundTrip(req)
	}
	x := &exchange{doc: t.doc, req: req, target: t.doc.find(req), report: t.report}
	sent, err := x.tapRequest()
	if err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(sent)
	if err != nil {
		return nil, errors.Join(err, x.flush())
	}
	x.checkAnswer(resp)
	if err := x.flush(); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// leaves reports whether a redirect leads away from the server, as download
// links to a bucket do.
func leaves(req *http.Request) bool {
	return req.Response != nil && req.Response.Request != nil && req.Response.Request.URL.Host != req.URL.Host
}

// exchange is a request and its answer on their way through the checks.
type exchange struct {
	doc     *document
	req     *http.Request
	target  target
	reasons []string
	report  func(*Fault) error
}

func (x *exchange) fault(format string, args ...any) {
	x.reasons = append(x.reasons, fmt.Sprintf(format, args...))
}

// flush reports what was found so far.
func (x *exchange) flush() error {
	if len(x.reasons) == 0 {
		return nil
	}
	f := &Fault{Method: x.req.Method, Path: x.req.URL.RequestURI(), Reasons: x.reasons}
	x.reasons = nil
	return x.report(f)
}

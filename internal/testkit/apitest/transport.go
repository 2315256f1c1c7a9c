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
	invalidKey contextKey = iota
	failureKey
)

// AllowInvalid returns a context for requests that are intentionally invalid. For such a
// request, only the response is checked.
func AllowInvalid(ctx context.Context) context.Context {
	return context.WithValue(ctx, invalidKey, true)
}

// AllowFailure returns a context for requests that may have a status of 500 or more,
// which is a fault otherwise. The format of the response is still checked.
func AllowFailure(ctx context.Context) context.Context {
	return context.WithValue(ctx, failureKey, true)
}

func marked(ctx context.Context, key contextKey) bool {
	is, _ := ctx.Value(key).(bool)
	return is
}

// Client returns an HTTP client that checks every exchange. A fault fails the test
// with the method, the path, and the reason, but does not change the exchange.
// Connections are closed at the end of the test.
func Client(t testing.TB) *http.Client {
	t.Helper()
	next := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(next.CloseIdleConnections)
	return &http.Client{Transport: Reporting(t, next)}
}

// Reporting returns a RoundTripper that checks every exchange of next and reports
// faults to t. It is safe for concurrent use. Open streams must be closed before the
// test ends.
func Reporting(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return &transport{doc: embedded(), next: next, report: func(f *Fault) error {
		t.Errorf("%v", f)
		return nil
	}}
}

// Transport returns a RoundTripper that checks every exchange of next and does not need
// a test. If it finds a fault, RoundTrip returns a *Fault. If it finds a fault in an
// event stream, the Read method of the response body returns a *Fault. It is safe for
// concurrent use.
func Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{doc: embedded(), next: next, report: func(f *Fault) error { return f }}
}

// Check checks a completed exchange and reports faults to t. The caller can read the
// body of the response afterwards. If req.GetBody is set, Check also checks the body of
// the request.
func Check(t testing.TB, req *http.Request, resp *http.Response) {
	t.Helper()
	x := &exchange{doc: embedded(), req: req, report: func(f *Fault) error {
		t.Errorf("%v", f)
		return nil
	}}
	x.target = x.doc.find(req)
	var sent io.Reader
	if req.GetBody != nil {
		again, err := req.GetBody()
		if err != nil {
			t.Fatalf("reading the body of the request: %v", err)
		}
		sent = again
	}
	x.checkRequest(sent)
	x.checkAnswer(resp)
	_ = x.flush()
}

// Fault describes an exchange that does not match the API document.
type Fault struct {
	Method, Path string
	Reasons      []string
}

// Error returns the method, the path, and all reasons.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s %s: %s", f.Method, f.Path, strings.Join(f.Reasons, "; "))
}

type transport struct {
	doc    *document
	next   http.RoundTripper
	report func(*Fault) error
}

// RoundTrip sends the request and checks the exchange.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if isRedirectAway(req) {
		return t.next.RoundTrip(req)
	}
	x := &exchange{doc: t.doc, req: req, target: t.doc.find(req), report: t.report}
	sent, err := x.prepareRequest()
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

// isRedirectAway reports whether the request follows a redirect to another server, such
// as a download link to a bucket.
func isRedirectAway(req *http.Request) bool {
	return req.Response != nil && req.Response.Request != nil && req.Response.Request.URL.Host != req.URL.Host
}

// exchange is a request and the faults found in the request and its response.
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

// flush passes the faults found since the last call to report and returns the error of
// report. Without new faults, it returns nil.
func (x *exchange) flush() error {
	if len(x.reasons) == 0 {
		return nil
	}
	f := &Fault{Method: x.req.Method, Path: x.req.URL.RequestURI(), Reasons: x.reasons}
	x.reasons = nil
	return x.report(f)
}

package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

const (
	// insideURL is the base URL of requests that localTransport handles.
	insideURL = "http://api.stint.internal"
	// maxInside is the maximum size of a response to such a request, in bytes.
	maxInside = 64 << 20
	// maxRefusal is the maximum number of bytes that answer keeps of an error text.
	maxRefusal = 1 << 10
)

// HTTP serves MCP over streamable HTTP without sessions. It is safe for
// concurrent use.
type HTTP struct {
	api     http.Handler
	streams http.Handler
}

// NewHTTP returns a handler with tools that call api.
func NewHTTP(api http.Handler) *HTTP {
	server := newServer()
	return &HTTP{api: api, streams: sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server },
		// The SDK's protection refuses requests to a loopback address that name
		// another host, such as requests through a local proxy. Each request needs
		// a token, so DNS rebinding is harmless.
		&sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true},
	)}
}

// Serve answers a POST request. The caller has checked its token, origin, and
// content type and has limited its body. If Serve returns an error, nothing was
// written, and the caller must answer with the error.
func (h *HTTP) Serve(w http.ResponseWriter, r *http.Request) error {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	c, err := client.New(client.Options{
		URL: insideURL, Token: token, UserAgent: r.UserAgent(), Attempts: 1,
		HTTP: &http.Client{Transport: &localTransport{h.api, w.Header().Get(headerRequestID)}},
	})
	if err != nil {
		return fmt.Errorf("reach the API: %w", err)
	}
	inner := r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{c, r.Context()}))
	inner.Header = r.Header.Clone()
	inner.Header.Set("Accept", "application/json, text/event-stream")
	out := &answer{ResponseWriter: w}
	h.streams.ServeHTTP(out, inner)
	return out.refusal()
}

const headerRequestID = "X-Request-Id"

// answer is a ResponseWriter that withholds error responses of the SDK that are
// not JSON (refusals), so that the API can report them in its own format.
type answer struct {
	http.ResponseWriter
	refused int // status of the refusal; 0 if there is none
	text    bytes.Buffer
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader writes the status, or only records it if the response is a refusal.
func (a *answer) WriteHeader(status int) {
	kind, _, _ := mime.ParseMediaType(a.Header().Get("Content-Type"))
	if status >= http.StatusBadRequest && kind != "application/json" {
		a.refused = status
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes p, or keeps it as the text of a refusal.
func (a *answer) Write(p []byte) (int, error) {
	if a.refused != 0 {
		a.text.Write(p[:min(len(p), maxRefusal-a.text.Len())])
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// refusal returns the recorded refusal as an error, or nil.
func (a *answer) refusal() error {
	if a.refused == 0 {
		return nil
	}
	for _, name := range []string{"Content-Type", "X-Content-Type-Options"} {
		a.Header().Del(name)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(a.text.String(), "?"))
	if a.refused >= http.StatusInternalServerError {
		return fmt.Errorf("serve MCP: %s", text)
	}
	return stint.InvalidParam("body", "The server does not accept this request of the Model Context Protocol: %s.", strings.TrimSuffix(text, "."))
}

// localTransport is a transport that calls a handler of this process.
type localTransport struct {
	to        http.Handler
	requestID string // request ID of the outer request
}

var (
	errTooLarge = errors.New("the answer is too large")
	errCutOff   = errors.New("the answer was cut off. Try again; the server's log has the reason")
)

// RoundTrip calls the handler and returns its whole response, which it keeps in
// memory. The error is errTooLarge if the response has more than maxInside bytes,
// and errCutOff if the handler panics. The API has logged the reason of the panic,
// unless the request was cancelled.
func (t *localTransport) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = errCutOff
		}
	}()
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	in.Header.Set(headerRequestID, t.requestID)
	out := &buffer{header: http.Header{}}
	t.to.ServeHTTP(out, in)
	if out.full {
		return nil, errTooLarge
	}
	out.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", out.status, http.StatusText(out.status)), StatusCode: out.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: out.header, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()),
	}, nil
}

// buffer is a ResponseWriter that keeps the response in memory.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
	full   bool
}

func (b *buffer) Header() http.Header { return b.header }

func (b *buffer) WriteHeader(status int) {
	if b.status == 0 && status >= http.StatusOK {
		b.status = status
	}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if b.body.Len()+len(p) > maxInside {
		b.full = true
		return 0, errTooLarge
	}
	return b.body.Write(p)
}

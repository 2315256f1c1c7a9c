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
	// insideURL is the address of requests that never leave the process.
	insideURL = "http://api.stint.internal"
	// maxInside bounds the answer to such a request, in bytes.
	maxInside = 64 << 20
	// maxRefusal bounds what is kept of a refusal's text, in bytes.
	maxRefusal = 1 << 10
)

// HTTP serves MCP over streamable HTTP, each request for itself: there are no
// sessions. It is safe for concurrent use.
type HTTP struct {
	api     http.Handler
	streams http.Handler
}

// NewHTTP makes a handler whose tools ask api.
func NewHTTP(api http.Handler) *HTTP {
	server := newServer()
	return &HTTP{api: api, streams: sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server },
		// Each request shows a token, which a page that rebinds a name does not
		// have; and behind a proxy on this machine no name is a local one.
		&sdk.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true},
	)}
}

// Serve answers a POST, whose token was found good, whose origin and type were
// checked and whose body is bounded. What it returns is a refusal that is to be
// answered: nothing was written then.
func (h *HTTP) Serve(w http.ResponseWriter, r *http.Request) error {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	c, err := client.New(client.Options{
		URL: insideURL, Token: token, UserAgent: r.UserAgent(), Attempts: 1,
		HTTP: &http.Client{Transport: &inside{h.api, w.Header().Get(headerRequestID)}},
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

// answer passes an answer on, but for refusals in plain text: those are kept,
// to be told as the API tells its own.
type answer struct {
	http.ResponseWriter
	refused int // the status of a refusal; 0 for none
	text    bytes.Buffer
}

// Unwrap lets http.ResponseController reach what is below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader passes the status on, or keeps it.
func (a *answer) WriteHeader(status int) {
	kind, _, _ := mime.ParseMediaType(a.Header().Get("Content-Type"))
	if status >= http.StatusBadRequest && kind != "application/json" {
		a.refused = status
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write passes bytes on, or keeps them.
func (a *answer) Write(p []byte) (int, error) {
	if a.refused != 0 {
		a.text.Write(p[:min(len(p), maxRefusal-a.text.Len())])
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

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
	return stint.InvalidParam("body", "This is no request of the Model Context Protocol that the server takes: %s.", strings.TrimSuffix(text, "."))
}

// inside sends requests to a handler of this process.
type inside struct {
	to        http.Handler
	requestID string // names them like the request that they are made for
}

var (
	errTooLarge = errors.New("the answer is too large")
	errCutOff   = errors.New("the answer was cut off. Try again; if it stays, the server's log tells why")
)

// RoundTrip returns when the handler has. The answer is in memory, so it is for
// requests whose answers are bounded. A handler gives up an answer that has
// begun by a panic; there is no server around this one that expects it. What it
// panicked with, the API has logged.
func (t *inside) RoundTrip(r *http.Request) (_ *http.Response, err error) {
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

// buffer keeps an answer.
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

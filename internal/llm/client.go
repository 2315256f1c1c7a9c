package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"

	"github.com/stint-dev/stint"
)

const (
	defaultTries = 6
	defaultIdle  = 10 * time.Minute // slow machines need minutes for a long prompt
	firstWait    = 500 * time.Millisecond
	lastWait     = 30 * time.Second
	maxRetryIn   = time.Minute // longest Retry-After that is respected
	maxWhole     = 32 << 20    // bytes of an answer that is not streamed
	maxRefusal   = 64 << 10    // bytes of an error response
)

// Options configure a Client. Type is one of stint's provider types except
// offline. URL has no slash at the end; OpenAI's ends in /v1.
type Options struct {
	Type, URL, Key string
	HTTP           *http.Client                               // nil means http.DefaultClient
	Tries          int                                        // attempts per request; 0 means 6
	Idle           time.Duration                              // longest silence of the server; 0 means ten minutes
	Sleep          func(context.Context, time.Duration) error // nil means a timer
}

// Client sends requests to one endpoint. It must not be used concurrently: it
// remembers what the endpoint does not support.
type Client struct {
	o       Options
	dialect dialect
}

// dialect encodes requests and decodes answers.
type dialect interface {
	path() string
	header(h http.Header, key string)
	body(r Request) any
	reader(r Request, on func(Event)) reader
	// relax removes an optional feature that the server refused from future
	// requests. It returns false if there is nothing left to remove.
	relax(e *Error) bool
}

// reader decodes an answer.
type reader interface {
	event(data []byte) (last bool, err error) // an event of a stream
	whole(data []byte) error                  // the answer of a server that does not stream
	answer() (Answer, error)                  // fails if the answer is incomplete
}

// New returns a client. It returns an error for an unknown type.
func New(o Options) (*Client, error) {
	c := &Client{o: o}
	switch o.Type {
	case stint.ProviderAnthropic:
		c.dialect = &anthropic{}
	case stint.ProviderResponses:
		c.dialect = &responses{}
	case stint.ProviderChat:
		c.dialect = &chat{}
	default:
		return nil, fmt.Errorf("unknown dialect %q", o.Type)
	}
	c.o.HTTP, c.o.Tries, c.o.Idle = cmp.Or(o.HTTP, http.DefaultClient), cmp.Or(o.Tries, defaultTries), cmp.Or(o.Idle, defaultIdle)
	if c.o.Sleep == nil {
		c.o.Sleep = sleep
	}
	return c, nil
}

// Ask sends a request and calls on while the answer arrives. Temporary failures
// are retried a limited number of times, with an event for each. The error is
// an *Error, or the context's cause.
func (c *Client) Ask(ctx context.Context, r Request, on func(Event)) (Answer, error) {
	for try := 1; ; try++ {
		a, err := c.once(ctx, r, on)
		if err == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
		fault, ok := errors.AsType[*Error](err)
		if !ok {
			fault = &Error{Message: err.Error()}
		}
		if c.dialect.relax(fault) {
			try--
			continue
		}
		if !fault.Retryable || try >= c.o.Tries {
			return Answer{}, fault
		}
		on(Event{Retry: &Retry{Try: try, Of: c.o.Tries, Cause: fault}})
		if err := c.o.Sleep(ctx, pauseAfter(try, fault)); err != nil {
			return Answer{}, context.Cause(ctx)
		}
	}
}

// pauseAfter returns the time to wait after a failed attempt: the server's
// Retry-After within a limit, or else a randomised exponential delay.
func pauseAfter(try int, e *Error) time.Duration {
	if e.RetryAfter > 0 {
		return min(e.RetryAfter, maxRetryIn)
	}
	wait := min(firstWait<<min(try-1, 10), lastWait)
	return wait/2 + rand.N(wait/2)
}

var errSilent = errors.New("the server was silent for too long")

// once sends one request.
func (c *Client) once(ctx context.Context, r Request, on func(Event)) (Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.o.Idle, func() { cancel(errSilent) })
	defer silence.Stop()
	resp, err := c.send(ctx, r)
	if err != nil {
		return Answer{}, broken(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return Answer{}, refusal(resp)
	}
	in := &watchedReader{r: resp.Body, received: func() { silence.Reset(c.o.Idle) }}
	answer := c.dialect.reader(r, on)
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json":
		err = readWhole(in, answer)
	case "text/html":
		err = &Error{Status: resp.StatusCode, Code: codeWebPage, Message: "The response is a web page."}
	default: // not every server declares a stream
		err = readEvents(in, answer.event)
	}
	if err != nil {
		return Answer{}, broken(ctx, err)
	}
	return answer.answer()
}

func (c *Client) send(ctx context.Context, r Request) (*http.Response, error) {
	body, err := json.Marshal(c.dialect.body(r))
	if err != nil {
		return nil, &Error{Message: "The request cannot be written: " + err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL+c.dialect.path(), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	c.dialect.header(req.Header, c.o.Key)
	return c.o.HTTP.Do(req)
}

// broken converts an error of a connection to an *Error.
func broken(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = cause
	}
	return &Error{Message: err.Error(), Retryable: !errors.Is(err, errTooLong)}
}

func readWhole(in io.Reader, answer reader) error {
	b, err := io.ReadAll(io.LimitReader(in, maxWhole+1))
	if err != nil {
		return err
	}
	if len(b) > maxWhole {
		return errTooLong
	}
	return answer.whole(b)
}

// watchedReader calls received for each read that returns data.
type watchedReader struct {
	r        io.Reader
	received func()
}

func (h *watchedReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.received()
	}
	return n, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

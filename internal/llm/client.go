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
	defaultIdle  = 10 * time.Minute       // slow model servers need minutes for a long prompt
	firstWait    = 500 * time.Millisecond // maximum pause after the first attempt
	lastWait     = 30 * time.Second       // maximum pause without Retry-After
	maxRetryIn   = time.Minute            // maximum pause with Retry-After
	maxWhole     = 32 << 20               // maximum size of an answer that is not streamed, in bytes
	maxRefusal   = 64 << 10               // maximum size of an error response, in bytes
)

// Options configure a Client. Type is a provider type, such as
// stint.ProviderAnthropic, but not stint.ProviderOffline. URL is the base URL of the
// API without a slash at the end; OpenAI's ends in /v1. Key is the API key.
type Options struct {
	Type, URL, Key string
	HTTP           *http.Client                               // nil means http.DefaultClient
	Tries          int                                        // attempts per request; 0 means 6
	Idle           time.Duration                              // maximum time without data from the server; 0 means ten minutes
	Sleep          func(context.Context, time.Duration) error // waits between attempts; nil means a timer
}

// Client sends requests to one endpoint. It records the features that the endpoint does
// not support, and is not safe for concurrent use.
type Client struct {
	o       Options
	dialect dialect
}

// dialect encodes requests for one API and decodes its answers.
type dialect interface {
	path() string
	header(h http.Header, key string)
	body(r Request) any
	reader(r Request, on func(Event)) reader
	// relax removes the optional feature that the server refused with e from future
	// requests. It returns false if e does not refuse a feature that can be removed.
	relax(e *Error) bool
}

// reader decodes an answer.
type reader interface {
	event(data []byte) (last bool, err error) // decodes one event of a stream; last is true for the last event
	whole(data []byte) error                  // decodes the answer of a server that does not stream
	answer() (Answer, error)                  // returns the answer, or an error if it is incomplete
}

// New returns a client. It returns an error if o.Type is not supported.
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

// Ask sends a request and returns the answer. It calls on for each piece of the answer
// as it arrives. After a temporary failure it calls on with an event that announces the
// retry, and sends the request again, with at most Options.Tries attempts. The error is
// an *Error, or context.Cause(ctx).
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

// pauseAfter returns the time to wait after the failed attempt try: the server's
// Retry-After, at most maxRetryIn, or else a random time that grows exponentially.
func pauseAfter(try int, e *Error) time.Duration {
	if e.RetryAfter > 0 {
		return min(e.RetryAfter, maxRetryIn)
	}
	wait := min(firstWait<<min(try-1, 10), lastWait)
	return wait/2 + rand.N(wait/2)
}

var errSilent = errors.New("the server was silent for too long")

// once sends the request one time.
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
	default: // an event stream; some servers do not set its Content-Type
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

// broken returns err if it is an *Error. It converts an error of the connection to an
// *Error, which is retryable unless the answer was too long.
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

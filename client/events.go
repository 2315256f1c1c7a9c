package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client/internal/sse"
)

// maxEvent bounds one event of a stream, in bytes.
const maxEvent = 16 << 20

// silence is how long a stream may bring nothing before it counts as broken.
// The server sends a heartbeat after 15 seconds.
const silence = 60 * time.Second

// Events follows the stream of a run from its beginning, or after the event
// with the given number, until the run has ended and every event was
// delivered. Each event comes exactly once and in order; heartbeats are not
// delivered. The time of an event (At) is not part of the stream.
//
// Where the connection breaks, the stream is resumed after the last event that
// came. It ends with an error when the server refuses, when ctx ends, or when
// Options.Attempts reconnections in a row brought nothing.
func (r *Runs) Events(ctx context.Context, id string, after int64) iter.Seq2[stint.Event, error] {
	return func(yield func(stint.Event, error) bool) {
		f := follower{c: r.c, run: id, after: after, yield: yield}
		if err := f.follow(ctx); err != nil && !f.stopped {
			yield(stint.Event{}, err)
		}
	}
}

// follower is one walk along a stream.
type follower struct {
	c       *Client
	run     string
	after   int64
	yield   func(stint.Event, error) bool
	done    bool // the complete event was delivered
	stopped bool // the consumer wants no more
}

// brokenError says that a stream broke off and may be resumed.
type brokenError struct{ cause error }

func (e *brokenError) Error() string { return "the event stream broke off: " + e.cause.Error() }
func (e *brokenError) Unwrap() error { return e.cause }

func (f *follower) follow(ctx context.Context) error {
	for failures := 0; ; {
		before := f.after
		err := f.connect(ctx)
		switch {
		case f.stopped || f.done:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !resumable(ctx, err):
			return err
		case f.after > before:
			failures = 0
		}
		if failures++; failures >= f.c.attempts {
			return fmt.Errorf("follow %s: gave up after %d attempts: %w", f.run, failures, err)
		}
		if err := f.c.pause(ctx, failures, err); err != nil {
			return err
		}
	}
}

func resumable(ctx context.Context, err error) bool {
	_, broken := errors.AsType[*brokenError](err)
	return broken || worthRepeating(ctx, err)
}

// connect opens the stream once and delivers what it brings. It returns nil
// only when the stream has come to its end.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(errors.New("nothing came for a minute")) })
	defer watch.Stop()
	res, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		f.done = true // everything was delivered before
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("follow %s: the server sent %q instead of an event stream", f.run, res.Header.Get("Content-Type"))
	}
	return f.read(ctx, res.Body, watch)
}

func (f *follower) open(ctx context.Context) (*http.Response, error) {
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	if f.after > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(f.after, 10))
	}
	req, err := f.c.request(ctx, call{method: http.MethodGet, path: []string{"runs", f.run, "events"}, header: header}, nil)
	if err != nil {
		return nil, err
	}
	return f.c.send(req)
}

func (f *follower) read(ctx context.Context, body io.Reader, watch *time.Timer) error {
	in := sse.NewReader(body, maxEvent)
	for {
		raw, err := in.Next()
		if errors.Is(err, sse.ErrTooLarge) {
			return fmt.Errorf("follow %s: %w", f.run, err)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return &brokenError{err}
		}
		watch.Reset(silence)
		if stint.EventType(raw.Type) == stint.EventHeartbeat {
			continue
		}
		event, err := f.parse(raw)
		if err != nil {
			return err
		}
		if event.Seq <= f.after {
			continue // delivered before the connection broke
		}
		f.after = event.Seq
		f.done = event.Type == stint.EventComplete
		if !f.yield(event, nil) {
			f.stopped = true
			return nil
		}
		if f.done {
			return nil
		}
	}
}

// parse reads an event and holds it to the order of the journal: a hole means
// that something was lost on the way, and the stream is resumed before it.
func (f *follower) parse(raw sse.Event) (stint.Event, error) {
	seq, err := strconv.ParseInt(raw.ID, 10, 64)
	if err != nil || seq < 1 {
		return stint.Event{}, fmt.Errorf("follow %s: the event ID %q is no number", f.run, raw.ID)
	}
	if seq > f.after+1 {
		return stint.Event{}, &brokenError{fmt.Errorf("event %d came after %d", seq, f.after)}
	}
	if !json.Valid(raw.Data) {
		return stint.Event{}, fmt.Errorf("follow %s: event %d is no JSON", f.run, seq)
	}
	return stint.Event{Seq: seq, Type: stint.EventType(raw.Type), Data: raw.Data}, nil
}

// RecordedEvents walks what a run's journal holds now, with the time of each
// event, and does not wait for more.
func (r *Runs) RecordedEvents(ctx context.Context, id string, after int64) iter.Seq2[stint.Event, error] {
	q := url.Values{}
	if after > 0 {
		q.Set("lastEventId", strconv.FormatInt(after, 10))
	}
	return list[stint.Event](ctx, r.c, q, 0, "runs", id, "events")
}

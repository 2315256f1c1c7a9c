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

// maxEvent is the maximum size of an event, in bytes.
const maxEvent = 16 << 20

// silenceLimit is how long a stream may be silent before the connection counts as
// broken. The server sends a heartbeat after 15 seconds.
const silenceLimit = 60 * time.Second

// Events iterates over the events of a run after the given number, 0 for all, until the
// run has ended. It returns each event exactly once and in order, without heartbeats.
//
// If the connection breaks, Events resumes the stream after the last received
// event. It ends with an error if the server refuses the request or sends an
// invalid event, if ctx ends, or if Options.Attempts connections in a row delivered
// nothing.
func (r *Runs) Events(ctx context.Context, id string, after int64) iter.Seq2[stint.Event, error] {
	return func(yield func(stint.Event, error) bool) {
		f := follower{c: r.c, run: id, after: after, yield: yield}
		if err := f.follow(ctx); err != nil && !f.stopped {
			yield(stint.Event{}, err)
		}
	}
}

// follower reads the stream of a run over one or more connections.
type follower struct {
	c       *Client
	run     string
	after   int64 // number of the last delivered event
	yield   func(stint.Event, error) bool
	done    bool // the event of type complete was delivered
	stopped bool // yield returned false
}

func (f *follower) follow(ctx context.Context) error {
	for failures := 0; ; {
		before := f.after
		err := f.connect(ctx)
		switch {
		case f.stopped || f.done:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !isTemporary(ctx, err):
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

// connect opens the stream once and delivers its events. It returns nil only at the
// end of the stream, or after yield returned false.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silenceLimit, func() { cancel(errors.New("the server sent nothing for a minute")) })
	defer watch.Stop()
	res, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		f.done = true // all events were delivered before
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
	return f.c.once(ctx, &call{method: http.MethodGet, path: []string{"runs", f.run, "events"}, header: header, stream: true})
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
			return f.c.sendError(err)
		}
		watch.Reset(silenceLimit)
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

// parse decodes an event. If the event before it is missing, parse returns a sendError,
// which follow treats as a broken connection: it resumes at the missing event.
func (f *follower) parse(raw sse.Event) (stint.Event, error) {
	seq, err := strconv.ParseInt(raw.ID, 10, 64)
	if err != nil || seq < 1 {
		return stint.Event{}, fmt.Errorf("follow %s: the event ID %q is not a number", f.run, raw.ID)
	}
	if seq > f.after+1 {
		return stint.Event{}, f.c.sendError(fmt.Errorf("event %d came after %d", seq, f.after))
	}
	var data struct{ Timestamp stint.Time }
	if err := json.Unmarshal(raw.Data, &data); err != nil {
		return stint.Event{}, fmt.Errorf("follow %s: event %d is not a JSON object with a time", f.run, seq)
	}
	return stint.Event{Seq: seq, Type: stint.EventType(raw.Type), At: data.Timestamp, Data: raw.Data}, nil
}

// RecordedEvents iterates over the events after the given number, 0 for all, that are
// in a run's journal now, with their times. It does not wait for further events.
func (r *Runs) RecordedEvents(ctx context.Context, id string, after int64) iter.Seq2[stint.Event, error] {
	q := url.Values{}
	if after > 0 {
		q.Set("lastEventId", strconv.FormatInt(after, 10))
	}
	return list[stint.Event](ctx, r.c, q, 0, "runs", id, "events")
}

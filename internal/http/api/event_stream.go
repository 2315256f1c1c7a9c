package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/feed"
)

// eventStream writes the events of a run to a client until the last event, or until
// the context ends. It stores only a position, not events. A slow client delays only
// its own stream. If a write takes longer than Config.WriteTimeout, the stream ends;
// the client can continue after the last event it received with a new stream.
type eventStream struct {
	a        *api
	w        http.ResponseWriter
	control  *http.ResponseController
	follower *feed.Follower
	last     int64 // the position of the last event that was written
	org      string
	tokenID  string
	checked  time.Time // time of the last check of the token
}

func (a *api) newEventStream(w http.ResponseWriter, r *http.Request, c auth.Caller, after int64) *eventStream {
	a.metrics.streams.Inc()
	return &eventStream{
		a: a, w: w, control: http.NewResponseController(w), follower: a.c.Feed.Follow(r.PathValue("id"), after, a.c.Heartbeat), last: after,
		org: c.OrgID, tokenID: c.TokenID, checked: a.c.Now(),
	}
}

func (s *eventStream) close() {
	s.follower.Close()
	s.a.metrics.streams.Dec()
}

// run writes the stream. It returns after the last event of the run, or when the
// client disconnects, the token becomes invalid, or the server stops.
func (s *eventStream) run(ctx context.Context) {
	ctx, cancel := s.a.untilStop(ctx)
	defer cancel()
	defer s.a.c.Auth.OnRevoked(s.tokenID, cancel)()
	s.w.WriteHeader(http.StatusOK)
	if s.control.Flush() != nil {
		return
	}
	if err := s.follow(ctx); err != nil {
		s.a.c.Log.LogAttrs(ctx, slog.LevelError, "event stream failed",
			slog.String("request", s.w.Header().Get(headerRequestID)), slog.Any("error", err))
	}
}

// follow writes events as they are appended to the journal, and a heartbeat after
// each Config.Heartbeat without events. Next returns available events even if ctx has
// ended, so follow checks ctx before each call.
func (s *eventStream) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		frames, last, done, err := s.follower.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case frames == nil:
			frames = s.heartbeat()
		default:
			s.last = last
		}
		if !s.send(frames) || done || !s.tokenValid(ctx) {
			return nil
		}
	}
	return nil
}

// send writes and flushes frames. It returns false if this fails, for example because
// the client has disconnected.
func (s *eventStream) send(frames []byte) bool {
	_, err := s.w.Write(frames)
	return err == nil && s.control.Flush() == nil
}

// heartbeat returns the frame of a heartbeat. A heartbeat is not part of the
// journal. It repeats the ID of the last event, if any, so that a client that
// reconnects does not miss events.
func (s *eventStream) heartbeat() []byte {
	b := append(make([]byte, 0, 96), "event: heartbeat\ndata: {\"timestamp\":\""...)
	b = append(b, stint.TimeOf(s.a.c.Now()).String()...)
	b = append(b, "\"}\n"...)
	if s.last > 0 {
		b = append(strconv.AppendInt(append(b, "id: "...), s.last, 10), '\n')
	}
	return append(b, '\n')
}

// tokenValid reports whether the token is still valid: it can expire, and another
// process can revoke it. tokenValid checks the token at most once per
// Config.Heartbeat; between checks, and if a check fails for another reason, it
// returns true.
func (s *eventStream) tokenValid(ctx context.Context) bool {
	now := s.a.c.Now()
	if now.Sub(s.checked) < s.a.c.Heartbeat {
		return true
	}
	s.checked = now
	return !errors.Is(s.a.c.Auth.Check(ctx, s.org, s.tokenID), auth.ErrInvalidKey)
}

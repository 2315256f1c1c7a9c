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

// stream writes the journal of a run to one reader, from a position on, until
// the last event, or until the reader leaves, the token ends or the server
// stops. It keeps nothing but the position: a reader that is slow blocks its
// own write alone, and one that takes longer than WriteTimeout for it is cut
// off and may come again.
type stream struct {
	a        *api
	w        http.ResponseWriter
	control  *http.ResponseController
	pulse    *pulse
	release  func() bool // the request's end no more
	unstop   func() bool // nor the server's
	unwatch  func()      // nor the token's
	follower *feed.Follower
	last     int64 // the number of the event that was written last
	org      string
	tokenID  string
	checked  time.Time // when the token was last known to be good
}

func (a *api) openStream(w http.ResponseWriter, r *http.Request, c auth.Caller, after int64) *stream {
	p, release := newPulse(r.Context(), a.c.Heartbeat)
	s := &stream{
		release: release, unstop: context.AfterFunc(a.c.Stop, p.end), unwatch: a.c.Auth.OnRevoked(c.TokenID, p.end),
		a: a, w: w, control: http.NewResponseController(w), pulse: p, follower: a.c.Feed.Follow(r.PathValue("id"), after), last: after,
		org: c.OrgID, tokenID: c.TokenID, checked: a.c.Now(),
	}
	a.metrics.streams.Inc()
	return s
}

func (s *stream) close() {
	s.pulse.timer.Stop()
	s.release()
	s.unstop()
	s.unwatch()
	s.follower.Close()
	s.a.metrics.streams.Dec()
}

var errReader = errors.New("the reader is gone")

// run follows the run and logs why it could not go on.
func (s *stream) run() {
	s.w.WriteHeader(http.StatusOK)
	if s.flush() != nil {
		return
	}
	if err := s.follow(); err != nil {
		s.a.c.Log.LogAttrs(s.pulse.request, slog.LevelError, "event stream broke off",
			slog.String("request", s.w.Header().Get(headerRequestID)), slog.Any("error", err))
	}
}

// follow writes what the follower gives, and a heartbeat after silence.
func (s *stream) follow() error {
	for {
		wait := s.pulse.wait()
		frames, last, done, err := s.follower.Next(wait)
		switch {
		case err == nil:
			s.last = last
			if s.send(frames) != nil || done {
				return nil
			}
		case s.pulse.over():
			return nil
		case wait.Err() == nil:
			return err
		case s.send(s.heartbeat()) != nil:
			return nil
		}
		s.pulse.renew(s.a.c.Heartbeat)
		if !s.mayGoOn() {
			return nil
		}
	}
}

// send writes and flushes.
func (s *stream) send(frames []byte) error {
	if _, err := s.w.Write(frames); err != nil {
		return errReader
	}
	return s.flush()
}

func (s *stream) flush() error {
	if s.control.Flush() != nil {
		return errReader
	}
	return nil
}

// heartbeat is the frame that shows life. It is not stored and repeats the
// last ID, so that a reader which comes again misses nothing.
func (s *stream) heartbeat() []byte {
	b := append(make([]byte, 0, 96), "event: heartbeat\ndata: {\"timestamp\":\""...)
	b = append(b, stint.TimeOf(s.a.c.Now()).String()...)
	b = append(b, "\"}\n"...)
	if s.last > 0 {
		b = append(strconv.AppendInt(append(b, "id: "...), s.last, 10), '\n')
	}
	return append(b, '\n')
}

// mayGoOn looks from time to time whether the token is still good: it may have
// expired, or another process may have revoked it.
func (s *stream) mayGoOn() bool {
	now := s.a.c.Now()
	if now.Sub(s.checked) < s.a.c.Heartbeat {
		return true
	}
	s.checked = now
	return !errors.Is(s.a.c.Auth.Check(s.pulse.request, s.org, s.tokenID), auth.ErrInvalidKey)
}

package modeltest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const keep = 1024 // requests that a server remembers

// Request is one model call as it arrived.
type Request struct {
	Dialect   string // Anthropic, Responses, Chat or Gemini
	Path      string
	Model     string
	Key       string // of whichever header or parameter had it
	Header    http.Header
	UserTurns int      // messages that the user wrote, in the whole conversation
	Users     []string // their texts, oldest first
	Tools     []string // names declared, with their namespaces
	Body      []byte
	At        time.Time
}

// Requests gives the model calls that have arrived, oldest first, refused
// ones too; at most the newest 1,024. They must not be changed.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Strays lists method and path of what was asked and is no part of any
// dialect, oldest first; at most the newest 1,024.
func (s *Server) Strays() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strays)
}

// Wait returns once n model calls have arrived since the server started. An
// answer may not have begun yet.
func (s *Server) Wait(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		begun, changed := s.begun, s.changed
		s.mu.Unlock()
		if begun >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d model calls, %d came: %w", n, begun, context.Cause(ctx))
		}
	}
}

// WaitFor returns the oldest model call that match accepts, waiting until
// there is one.
func (s *Server) WaitFor(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		s.mu.Lock()
		requests, changed := slices.Clone(s.requests), s.changed
		s.mu.Unlock()
		if i := slices.IndexFunc(requests, match); i >= 0 {
			return requests[i], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("waiting for a model call, %d others came: %w", len(requests), context.Cause(ctx))
		}
	}
}

// record remembers a request and wakes who waits. It returns its number.
func (s *Server) record(r Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	s.requests = newest(append(s.requests, r))
	close(s.changed)
	s.changed = make(chan struct{})
	return s.begun
}

func (s *Server) stray(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = newest(append(s.strays, r.Method+" "+r.URL.Path))
}

func newest[T any](list []T) []T { return list[max(0, len(list)-keep):] }

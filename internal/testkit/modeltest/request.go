package modeltest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const keep = 1024 // maximum number of stored requests

// Request is a received model call.
type Request struct {
	Dialect   string // Anthropic, Responses, Chat or Gemini
	Path      string
	Model     string
	Key       string // API key, from a header or the query
	Header    http.Header
	UserTurns int      // number of messages of the user in the conversation
	Users     []string // texts of these messages, oldest first
	Tools     []string // names of the declared tools, with their namespaces
	Body      []byte
	At        time.Time
}

// Requests returns the newest 1,024 model calls, oldest first. The result includes
// refused calls. The caller must not modify the slices and maps in the requests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Strays returns the method and path of the newest 1,024 requests that the server
// refused because their path or method is unknown, oldest first.
func (s *Server) Strays() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.strays)
}

// Wait waits until n model calls have arrived since the start of the server. The server
// may not have answered them yet. If ctx ends first, Wait returns an error.
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
			return fmt.Errorf("waiting for %d model calls, got %d: %w", n, begun, context.Cause(ctx))
		}
	}
}

// WaitFor waits until match returns true for a stored model call, and returns the
// oldest such call. If ctx ends first, WaitFor returns an error.
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
			return Request{}, fmt.Errorf("waiting for a model call, got %d others: %w", len(requests), context.Cause(ctx))
		}
	}
}

// record stores a request, wakes waiting callers, and returns the request's number,
// from 1.
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

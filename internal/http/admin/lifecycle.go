package admin

import (
	"net/http"
	"os"
)

// description is the response to GET /server. Ready is the result of /readyz, and
// Message is its error.
type description struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
}

func (s *server) describe(w http.ResponseWriter, r *http.Request) {
	d := description{URL: s.c.URL, PID: os.Getpid(), Ready: true}
	if err := s.c.Ready(r.Context()); err != nil {
		d.Ready, d.Message = false, err.Error()
	}
	respond(w, http.StatusOK, d)
}

// stop begins to stop the server. The response does not wait for the end.
func (s *server) stop(w http.ResponseWriter, _ *http.Request) {
	s.c.Log.Info("a request on the socket stops the server")
	respond(w, http.StatusAccepted, map[string]any{"pid": os.Getpid(), "drainMs": s.c.Drain.Milliseconds()})
	s.c.Stop()
}

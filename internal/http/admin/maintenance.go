package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/maintenance"
)

// maintenanceRequest is the body of POST /gc and POST /fsck.
type maintenanceRequest struct {
	GraceMs *int64 `json:"graceMs"` // grace period in milliseconds; nil means the server's setting
	DryRun  bool   `json:"dryRun"`
	Quick   bool   `json:"quick"`
	Repair  bool   `json:"repair"`
}

func (s *server) collect(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func(ctx context.Context, in maintenanceRequest, report func(maintenance.Report)) error {
		o := maintenance.CollectOptions{Grace: s.c.GCGrace, DryRun: in.DryRun}
		if in.GraceMs != nil {
			o.Grace = time.Duration(*in.GraceMs) * time.Millisecond
		}
		return s.c.Maintenance.Collect(ctx, o, report)
	})
}

func (s *server) check(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, func(ctx context.Context, in maintenanceRequest, report func(maintenance.Report)) error {
		return s.c.Maintenance.Check(ctx, maintenance.CheckOptions{Quick: in.Quick, Repair: in.Repair}, report)
	})
}

// stream calls do and responds with a line of JSON for each report. If do fails,
// the last line contains the error.
func (s *server) stream(w http.ResponseWriter, r *http.Request, do func(context.Context, maintenanceRequest, func(maintenance.Report)) error) {
	var in maintenanceRequest
	if !decode(w, r, &in) {
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, control := json.NewEncoder(w), http.NewResponseController(w)
	err := do(r.Context(), in, func(report maintenance.Report) {
		_ = out.Encode(report) // fails only if the client has disconnected, which also ends the context
		_ = control.Flush()
	})
	if err != nil && r.Context().Err() == nil {
		s.c.Log.Error("a request on the socket failed", "path", r.URL.Path, "error", err)
		_ = out.Encode(map[string]string{"error": err.Error()})
	}
}

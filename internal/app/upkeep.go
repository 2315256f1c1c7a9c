package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/maintenance"
	"github.com/stint-dev/stint/internal/telemetry"
)

func (s *server) upkeep() *maintenance.Service {
	return maintenance.New(maintenance.Config{Store: s.db, Library: s.library, IDs: s.ids, Now: time.Now})
}

// Upkeep looks after an installation whose server does not run; while it is
// open none can start.
type Upkeep struct {
	*maintenance.Service
	s *server
}

// OpenUpkeep opens the configuration's installation.
func OpenUpkeep(ctx context.Context, c config.Config) (*Upkeep, error) {
	if _, err := os.Stat(filepath.Join(c.Data, keyFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no installation in %s yet; name its folder with --data", c.Data)
	}
	s := &server{c: c, log: slog.New(slog.DiscardHandler), ids: newIDs(), registry: telemetry.Registry()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return &Upkeep{Service: s.upkeep(), s: s}, nil
}

// Close gives the installation up.
func (u *Upkeep) Close() error { return u.s.close() }

// collecting is the chore that clears the storage. Servers of one database take
// turns by chance; two at once do no harm.
func (s *server) collecting() jobs.Job {
	u := s.upkeep()
	return jobs.Job{Name: "delete files that nothing names", Every: s.c.GCEvery, Do: func(ctx context.Context) error {
		return u.Collect(ctx, maintenance.CollectOptions{Grace: s.c.GCGrace}, func(l maintenance.Report) {
			if l.Done && !l.Busy && l.Collected.Deleted > 0 {
				s.log.Info("deleted files that nothing names", "org", l.Org, "objects", l.Collected.Deleted, "bytes", l.Collected.Freed)
			}
		})
	}}
}

// upkeepRequest is the body of POST /gc and POST /fsck on the socket.
type upkeepRequest struct {
	GraceMs *int64 `json:"graceMs"` // nil: as the server is configured
	DryRun  bool   `json:"dryRun"`
	Quick   bool   `json:"quick"`
	Repair  bool   `json:"repair"`
}

// upkeepRoutes answer with a line of JSON for each step, the last one with the
// error if there was one.
func upkeepRoutes(mux *http.ServeMux, u *maintenance.Service, grace time.Duration, log *slog.Logger) {
	mux.HandleFunc("POST /gc", stream(log, func(ctx context.Context, in upkeepRequest, tell func(maintenance.Report)) error {
		o := maintenance.CollectOptions{Grace: grace, DryRun: in.DryRun}
		if in.GraceMs != nil {
			o.Grace = time.Duration(*in.GraceMs) * time.Millisecond
		}
		return u.Collect(ctx, o, tell)
	}))
	mux.HandleFunc("POST /fsck", stream(log, func(ctx context.Context, in upkeepRequest, tell func(maintenance.Report)) error {
		return u.Check(ctx, maintenance.CheckOptions{Quick: in.Quick, Repair: in.Repair}, tell)
	}))
}

func stream(log *slog.Logger, do func(context.Context, upkeepRequest, func(maintenance.Report)) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in upkeepRequest
		if !readSocket(w, r, &in) {
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		out, control := json.NewEncoder(w), http.NewResponseController(w)
		err := do(r.Context(), in, func(l maintenance.Report) {
			_ = out.Encode(l) // a client that left ends the context
			_ = control.Flush()
		})
		if err != nil && r.Context().Err() == nil {
			log.Error("asked through the socket", "path", r.URL.Path, "error", err)
			_ = out.Encode(map[string]string{"error": err.Error()})
		}
	}
}

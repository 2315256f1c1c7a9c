package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
)

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var log bytes.Buffer
		done, failed := 0, 0
		jobs.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)),
			jobs.Job{Name: "works", Every: time.Second, Do: func(context.Context) error { done++; return nil }},
			jobs.Job{Name: "fails", Every: 2 * time.Second, Do: func(context.Context) error { failed++; return errors.New("disk failure") }},
		)
		if done != 4 || failed != 2 {
			t.Errorf("done %d and failed %d times in 3.5 s, want 4 and 2", done, failed)
		}
		if got := log.String(); !strings.Contains(got, "disk failure") || !strings.Contains(got, "job=fails") {
			t.Errorf("the failure is not logged: %s", got)
		}
	})
}

package s3_test

import (
	"os"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/blobtest"
	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
)

func TestMain(m *testing.M) {
	// The library's default pauses between attempts suit remote servers; a local server
	// needs shorter ones.
	minio.DefaultRetryUnit, minio.DefaultRetryCap = 2*time.Millisecond, 20*time.Millisecond
	os.Exit(s3test.Run(m))
}

func open(t *testing.T, url string) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), s3.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{New: func(t *testing.T) blob.Store { return open(t, s3test.URL(t)) }})
}

package api

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint/internal/auth"
)

// Limits of the cache of responses: the number of runs and the bytes of one response,
// together 32 MiB.
const (
	maxFinalRuns     = 4096
	maxFinalRunBytes = 8 << 10
)

// finalRun is the response to GET /v1/runs/{id} for a run that cannot change any more
// except for its metadata.
type finalRun struct {
	body     []byte
	etag     string
	length   []string // the Content-Length header
	metadata map[string]string
}

// cachedRun returns the response in the cache for a run of the caller. It returns nil if
// there is none, or if the run's metadata was changed, possibly by another server.
func (a *api) cachedRun(r *http.Request, c auth.Caller, id string) *finalRun {
	cached, ok := a.finalRuns.Get(c.OrgID + id)
	if !ok {
		return nil
	}
	metadata, err := a.c.Runs.Metadata(r.Context(), c, id)
	if err != nil || !maps.Equal(metadata, cached.metadata) {
		return nil
	}
	return cached
}

// cacheFinalRun returns the response for a run with this JSON. It adds the response to
// the cache if the JSON has at most maxFinalRunBytes.
func (a *api) cacheFinalRun(key string, body []byte, metadata map[string]string) *finalRun {
	sum := sha256.Sum256(body)
	f := &finalRun{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, length: []string{strconv.Itoa(len(body))}, metadata: metadata}
	if len(body) <= maxFinalRunBytes {
		a.finalRuns.Put(key, f)
	}
	return f
}

func (f *finalRun) write(w http.ResponseWriter, r *http.Request) {
	if notModified(w, r, f.etag) {
		return
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = contentTypeJSON, f.length
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(f.body)
}

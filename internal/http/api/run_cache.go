package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
)

// Limits of the cache of responses: the number of runs and the bytes of one response,
// together 32 MiB.
const (
	maxFinalRuns     = 4096
	maxFinalRunBytes = 8 << 10
)

// finalRun is the response to GET /v1/runs/{id} for a run that cannot change any more.
type finalRun struct {
	body   []byte
	etag   string
	length []string // the Content-Length header
}

// cacheFinalRun returns the response for a run with this JSON. It adds the response to
// the cache if the JSON has at most maxFinalRunBytes.
func (a *api) cacheFinalRun(key string, body []byte) *finalRun {
	sum := sha256.Sum256(body)
	f := &finalRun{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, length: []string{strconv.Itoa(len(body))}}
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

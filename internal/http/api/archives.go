package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/files"
)

// downloadFormats are the forms of an archive. Of several that a client likes
// alike it gets the first.
var downloadFormats = []files.Format{files.TarGzip, files.Zip, files.TarZstd, files.Tar}

var mediaTypes = map[files.Format]string{
	files.TarGzip: "application/gzip", files.Zip: "application/zip", files.TarZstd: "application/zstd", files.Tar: "application/x-tar",
}

func formatNames() []string {
	names := make([]string, len(downloadFormats))
	for i, f := range downloadFormats {
		names[i] = string(f)
	}
	return names
}

// acceptedFormat chooses what the client likes best. A client that likes none
// gets a tar.gz: its Accept speaks of the answer that leads there.
func acceptedFormat(accept []string) files.Format {
	chosen, most := files.TarGzip, 0.0
	for _, f := range downloadFormats {
		typ, subtype, _ := strings.Cut(mediaTypes[f], "/")
		if q := quality(accept, typ, subtype); q > most {
			chosen, most = f, q
		}
	}
	return chosen
}

// archiveTag stands for the bytes of an archive.
func archiveTag(a *artifacts.VersionArchive) string {
	if a.Format == files.TarGzip {
		return a.Version.Digest
	}
	return a.Version.Digest + "." + string(a.Format)
}

// wantsDigest tells whether a request asks for the SHA-256 of the whole (RFC
// 9530), even if that must be computed first.
func wantsDigest(h http.Header) bool {
	for _, line := range h["Want-Repr-Digest"] {
		for part := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(part, "=")
			weight, _, _ = strings.Cut(weight, ";")
			n, err := strconv.Atoi(strings.TrimSpace(weight))
			if strings.TrimSpace(name) == "sha-256" && err == nil && n > 0 {
				return true
			}
		}
	}
	return false
}

// serveZstd compresses an archive while it is sent: it has no length, and no
// parts that could be asked for.
func (a *api) serveZstd(w http.ResponseWriter, r *http.Request, archive *artifacts.VersionArchive) error {
	h := w.Header()
	tag := `W/"` + archiveTag(archive) + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Accept-Ranges", "none")
	if knowsTag(r.Header["If-None-Match"], tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", mediaTypes[archive.Format])
	h.Set("Content-Disposition", disposition(archive.Name()))
	guard(h)
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	s := &streamWriter{ResponseWriter: w}
	err := archive.WriteZstd(r.Context(), s)
	switch {
	case err == nil:
		return nil
	case !s.begun:
		unsay(h)
		return err
	case s.lost || errors.Is(err, r.Context().Err()):
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	panic(fmt.Errorf("serve content: %w", err)) // breaks the connection off: the client must not take a part for the whole
}

// knowsTag tells whether If-None-Match names the tag, weakly compared.
func knowsTag(given []string, tag string) bool {
	for _, line := range given {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimSpace(part)
			if part == "*" || strings.TrimPrefix(part, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}

// streamWriter notes a client that is gone.
type streamWriter struct {
	http.ResponseWriter
	begun bool
	lost  bool
}

func (s *streamWriter) Write(p []byte) (int, error) {
	s.begun = true
	n, err := s.ResponseWriter.Write(p)
	s.lost = s.lost || err != nil
	return n, err
}

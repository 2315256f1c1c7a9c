package api

import (
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// quality returns the weight (q) of a media type in Accept headers, usually from 0 to
// 1. The most specific media range that matches the type determines the weight. If no
// range matches, the weight is 0.
func quality(accept []string, typ, subtype string) float64 {
	specificity := map[string]int{typ + "/" + subtype: 2, typ + "/*": 1, "*/*": 0}
	best, decided := 0.0, -1
	for part := range parts(accept) {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		if s, ok := specificity[media]; ok && s > decided {
			best, decided = 1, s
			if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
				best = q
			}
		}
	}
	return best
}

// matchesETag reports whether If-None-Match contains the entity tag, by weak
// comparison (RFC 9110).
func matchesETag(h http.Header, tag string) bool {
	for part := range parts(h["If-None-Match"]) {
		if part == "*" || strings.TrimPrefix(part, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// notModified sets the headers ETag and Cache-Control of immutable content. If the tag
// is in the client's If-None-Match, notModified responds with 304 and returns true.
func notModified(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header()["Cache-Control"] = privateNoCache
	w.Header().Set("ETag", tag)
	if !matchesETag(r.Header, tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

var privateNoCache = []string{"private, no-cache"}

// wantsDigest reports whether Want-Repr-Digest (RFC 9530) contains sha-256 with a
// positive weight.
func wantsDigest(h http.Header) bool {
	for part := range parts(h["Want-Repr-Digest"]) {
		name, weight, _ := strings.Cut(part, "=")
		weight, _, _ = strings.Cut(weight, ";")
		n, err := strconv.Atoi(strings.TrimSpace(weight))
		if strings.TrimSpace(name) == "sha-256" && err == nil && n > 0 {
			return true
		}
	}
	return false
}

// parts returns the comma-separated elements of a header, which can have several
// lines, without surrounding white space.
func parts(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for part := range strings.SplitSeq(line, ",") {
				if !yield(strings.TrimSpace(part)) {
					return
				}
			}
		}
	}
}

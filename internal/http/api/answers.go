package api

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	maxAnswers = 32 << 20 // bytes of finished runs kept
	maxAnswer  = 256 << 10
)

// answers keeps the encoded JSON of things that never change again, the ones
// used last, bounded in bytes.
type answers struct {
	limit int

	mu    sync.Mutex // guards the rest
	used  *list.List // of *answer, the one used last in front
	byKey map[string]*list.Element
	size  int
}

type answer struct {
	key    string
	body   []byte
	etag   string
	length []string // the Content-Length header
}

func newAnswers(limit int) *answers {
	return &answers{limit: limit, used: list.New(), byKey: map[string]*list.Element{}}
}

func (s *answers) get(key string) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		return nil
	}
	s.used.MoveToFront(e)
	return e.Value.(*answer)
}

// put keeps body, which nobody may change afterwards, and returns it as an
// answer.
func (s *answers) put(key string, body []byte) *answer {
	sum := sha256.Sum256(body)
	a := &answer{key: key, body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, length: []string{strconv.Itoa(len(body))}}
	if len(body) > maxAnswer {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[key] != nil {
		return a
	}
	s.byKey[key] = s.used.PushFront(a)
	s.size += a.cost()
	for s.size > s.limit {
		oldest := s.used.Remove(s.used.Back()).(*answer)
		delete(s.byKey, oldest.key)
		s.size -= oldest.cost()
	}
	return a
}

// cost is roughly what an answer takes in memory.
func (a *answer) cost() int { return len(a.body) + len(a.key) + 512 }

var mayKeep = []string{"private, no-cache"}

func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Cache-Control"] = mayKeep
	h.Set("ETag", a.etag)
	if known(r.Header["If-None-Match"], a.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h["Content-Type"], h["Content-Length"] = contentTypeJSON, a.length
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(a.body)
}

// known reports whether the tags of If-None-Match name etag.
func known(given []string, etag string) bool {
	for _, line := range given {
		for tag := range strings.SplitSeq(line, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

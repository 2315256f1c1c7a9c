package api

import (
	"net/http"
	"strconv"
)

// reply is a complete answer with a small body.
type reply struct {
	status int
	header map[string]string
	body   []byte // JSON, or empty
}

func jsonReply(status int, v any) *reply { return &reply{status: status, body: encode(v)} }

func (r *reply) set(name, value string) {
	if r.header == nil {
		r.header = map[string]string{}
	}
	r.header[name] = value
}

var (
	contentTypeJSON = []string{"application/json"}
	noStore         = []string{"no-store"}
)

func (r *reply) write(w http.ResponseWriter) {
	h := w.Header()
	for name, value := range r.header {
		h.Set(name, value)
	}
	if h["Cache-Control"] == nil {
		h["Cache-Control"] = noStore
	}
	if len(r.body) > 0 {
		h["Content-Type"] = contentTypeJSON
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	if len(r.body) > 0 {
		_, _ = w.Write(r.body)
	}
}

package api

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint/internal/plainjson"
)

// response is a complete response with a small body.
type response struct {
	status int
	header map[string]string
	body   []byte // JSON, or empty
}

func jsonResponse(status int, v any) *response { return &response{status: status, body: encode(v)} }

// createdResponse returns a response with status 201 and the resource v. location is the
// path of the resource.
func createdResponse(location string, v any) *response {
	return &response{http.StatusCreated, map[string]string{"Location": location}, encode(v)}
}

func (r *response) set(name, value string) {
	if r.header == nil {
		r.header = map[string]string{}
	}
	r.header[name] = value
}

var (
	contentTypeJSON = []string{"application/json"}
	noStore         = []string{"no-store"}
)

func (r *response) write(w http.ResponseWriter) {
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

// encode returns v as a line of JSON. A json.RawMessage is not changed.
func encode(v any) []byte {
	if raw, ok := v.(json.RawMessage); ok {
		return append(raw, '\n')
	}
	b, err := plainjson.Marshal(v)
	if err != nil {
		panic("api: encode a response: " + err.Error())
	}
	return append(b, '\n')
}

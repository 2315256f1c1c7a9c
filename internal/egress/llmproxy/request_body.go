package llmproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

const (
	maxBody     = 64 << 20  // maximum bytes of a request body
	maxBuffered = 128 << 20 // maximum bytes of the bodies of all requests of a run in progress
)

var (
	errTooLarge   = errors.New("the request is too large")
	errBackground = errors.New("the request asks for a response in the background")
	errNotJSON    = errors.New("the request is not JSON")
	errMemory     = errors.New("too many large requests")
)

// bodyError is an error while reading the client's request, as opposed to an error of the
// provider.
type bodyError struct{ error }

// requestBody is the body of a request in memory, with the model in the body.
type requestBody struct {
	data  []byte
	model string
}

// readBody reads and parses the body of a request. It adds the size of the body to
// buffered. The caller must call release after use, even after an error, to subtract the
// size again.
func readBody(r *http.Request, buffered *atomic.Int64, checkBackground bool) (b *requestBody, release func(), err error) {
	reserved := max(r.ContentLength, 0)
	release = func() { buffered.Add(-reserved) }
	if buffered.Add(reserved) > maxBuffered {
		return nil, release, errMemory
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 1<<20)))
	}
	part := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(part)
		buf.Write(part[:n])
		if extra := int64(buf.Len()) - reserved; extra > 0 {
			reserved += extra
			if buffered.Add(extra) > maxBuffered {
				return nil, release, errMemory
			}
		}
		switch {
		case buf.Len() > maxBody:
			return nil, release, errTooLarge
		case errors.Is(err, io.EOF):
			b = &requestBody{data: buf.Bytes()}
			return b, release, b.parse(checkBackground)
		case err != nil:
			if cause := context.Cause(r.Context()); cause != nil {
				return nil, release, cause
			}
			return nil, release, bodyError{err}
		}
	}
}

// parse sets the model. If checkBackground is set and the body is not empty, it returns
// an error if the body is not a JSON object, or if it has a member "background" that is
// neither false nor null. JSON parsers differ in their treatment of upper case and of
// repeated members. Therefore parse ignores the case of the name and checks each such
// member.
func (b *requestBody) parse(checkBackground bool) error {
	if len(b.data) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b.data))
	err := b.parseMembers(d, checkBackground)
	switch {
	case errors.Is(err, errBackground):
		return err
	case err != nil && checkBackground:
		return errNotJSON
	}
	return nil
}

func (b *requestBody) parseMembers(d *json.Decoder, checkBackground bool) error {
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(err, errNotJSON)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		name, _ := key.(string)
		if checkBackground && strings.EqualFold(name, "background") && string(value) != "false" && string(value) != "null" {
			return errBackground
		}
		var model string
		if name == "model" && json.Unmarshal(value, &model) == nil && len(model) <= maxModel {
			b.model = model
		}
	}
	_, err := d.Token()
	return err
}

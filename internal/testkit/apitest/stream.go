package apitest

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/stint-dev/stint"
)

// maxBlock is the maximum number of bytes in a block of an event stream.
const maxBlock = 64 << 20

// stream is the body of a response that checks an event stream while the caller reads
// it: it checks each block when the caller reads the last byte of the block. It does not
// read ahead. After the first fault, it returns the remaining bytes without checks.
type stream struct {
	x        *exchange
	schemas  map[string]*openapi3.Schema // schemas of the line data, by event type
	body     io.ReadCloser
	pending  []byte // the beginning of a block that is not complete
	last     int64  // ID of the last event
	status   string // status in the last event of type status
	complete bool   // the event complete was read
	broken   bool   // a fault was found
}

func newStream(x *exchange, media *openapi3.MediaType, b io.ReadCloser) io.ReadCloser {
	s := &stream{x: x, schemas: eventSchemas(x.doc, media), body: b}
	after := strings.TrimSpace(x.req.Header.Get("Last-Event-ID"))
	if after == "" {
		after = x.req.URL.Query().Get("lastEventId")
	}
	if after != "" {
		n, err := strconv.ParseInt(after, 10, 64)
		if err != nil || n < 0 {
			x.fault("a stream was opened after '%s', which is not an event ID", after)
			return b
		}
		s.last = n
	}
	return s
}

// eventSchemas returns the schemas to which x-events in the API document refers, by
// event type.
func eventSchemas(doc *document, media *openapi3.MediaType) map[string]*openapi3.Schema {
	schemas := map[string]*openapi3.Schema{}
	events, _ := media.Extensions["x-events"].(map[string]any)
	for event, v := range events {
		ref, _ := v.(map[string]any)
		name, _ := ref["$ref"].(string)
		if s := doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]; s != nil {
			schemas[event] = s.Value
		}
	}
	return schemas
}

// Read reads from the stream and checks the blocks that end in the read bytes. If the
// report function of the exchange returns an error for a fault, Read returns that error.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if s.broken {
		return n, err
	}
	s.pending = append(s.pending, p[:n]...)
	for !s.broken {
		block, rest, whole := bytes.Cut(s.pending, []byte("\n\n"))
		if !whole {
			break
		}
		s.check(string(block))
		s.pending = rest
	}
	switch {
	case s.broken:
	case len(s.pending) > maxBlock:
		s.fault("a block has more than %d bytes", maxBlock)
	case err == io.EOF && len(s.pending) > 0:
		s.fault("the stream ends inside a block: %.80q", s.pending)
	}
	if s.broken {
		s.pending = nil
		if fault := s.x.flush(); fault != nil {
			return n, fault
		}
	}
	return n, err
}

// Close closes the stream.
func (s *stream) Close() error { return s.body.Close() }

func (s *stream) fault(format string, args ...any) {
	s.broken = true
	s.x.fault("stream after event %d: "+format, append([]any{s.last}, args...)...)
}

func (s *stream) check(block string) {
	event, data, id, ok := s.parseBlock(block)
	if !ok {
		s.fault("a block is not the lines event, data and id: %.120q", block)
		return
	}
	schema := s.schemas[event]
	switch {
	case schema == nil:
		s.fault("the event type '%s' is not documented", event)
	case s.complete:
		s.fault("'%s' follows complete", event)
	default:
		s.checkID(event, id)
		for _, m := range matchesJSON(schema, []byte(data), openapi3.VisitAsResponse()) {
			s.fault("data of %s: %s", event, m)
		}
	}
	if !s.broken {
		s.record(event, data)
	}
}

// parseBlock returns the values of the three lines of a block. A heartbeat before the
// first event has no line with an ID; its ID is "0".
func (s *stream) parseBlock(block string) (event, data, id string, ok bool) {
	lines := strings.Split(block, "\n")
	if len(lines) == 2 && s.last == 0 && lines[0] == "event: "+string(stint.EventHeartbeat) {
		lines = append(lines, "id: 0")
	}
	if len(lines) != 3 {
		return "", "", "", false
	}
	event, first := strings.CutPrefix(lines[0], "event: ")
	data, second := strings.CutPrefix(lines[1], "data: ")
	id, third := strings.CutPrefix(lines[2], "id: ")
	return event, data, id, first && second && third
}

func (s *stream) checkID(event, id string) {
	want := s.last + 1
	if event == string(stint.EventHeartbeat) {
		want = s.last
	}
	if id != strconv.FormatInt(want, 10) {
		s.fault("the ID of %s is '%s', not %d", event, id, want)
		return
	}
	s.last = want
}

// record checks that the status in an event of type status or complete agrees with the
// earlier events, and records the status and the end of the stream.
func (s *stream) record(event, data string) {
	v, _ := decode([]byte(data))
	object, _ := v.(map[string]any)
	status, _ := object["status"].(string)
	switch stint.EventType(event) {
	case stint.EventStatus:
		if stint.Status(s.status).Final() {
			s.fault("the status changes from %s to %s", s.status, status)
		}
		s.status = status
	case stint.EventComplete:
		if s.status != "" && s.status != status {
			s.fault("the status in complete is %s, the last status was %s", status, s.status)
		}
		s.complete = true
	}
}

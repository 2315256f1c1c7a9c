// Package sse parses event streams (text/event-stream).
//
// It follows the parsing rules of the HTML standard (section 9.2). Lines end with
// LF, CR, or CR LF. A leading byte order mark, comments, and unknown fields are
// ignored. An incomplete event at the end of the stream is discarded.
package sse

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
)

// ErrTooLarge reports that a line or the data of one event exceeds the reader's
// limit. The stream cannot be read any further.
var ErrTooLarge = errors.New("sse: event exceeds the size limit")

// Event is one event of a stream.
type Event struct {
	Type string // "message" if the event has no type
	Data []byte // values of the event's data fields, joined by LF
	ID   string // last ID in the stream, from this event or an earlier one
}

// Reader reads events one after the other. It is not safe for concurrent use.
type Reader struct {
	lines   *bufio.Scanner
	limit   int
	begun   bool
	id      string
	afterCR bool // the last line ended with CR; a following LF belongs to it
	scanned int  // bytes of the incomplete line that were searched for a line end
}

// NewReader returns a Reader of the event stream r. limit is the maximum length of
// one line and of the data of one event, in bytes.
func NewReader(r io.Reader, limit int) *Reader {
	s := &Reader{lines: bufio.NewScanner(r), limit: limit}
	s.lines.Buffer(nil, limit+len("\n\r\n"))
	s.lines.Split(s.splitLine)
	return s
}

// Next returns the next complete event, io.EOF at the end of the stream, or
// ErrTooLarge if the event exceeds the limit.
func (r *Reader) Next() (Event, error) {
	var kind string
	var data []byte
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if !r.begun {
			r.begun, line = true, bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) > r.limit {
			return Event{}, ErrTooLarge
		}
		if len(line) == 0 {
			if data != nil {
				return Event{Type: cmp.Or(kind, "message"), Data: data[:len(data)-1], ID: r.id}, nil
			}
			kind = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":")) // a comment begins with a colon, so its name is empty
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if len(data)+len(value)+1 > r.limit {
				return Event{}, ErrTooLarge
			}
			data = append(append(data, value...), '\n')
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				r.id = string(value)
			}
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Event{}, ErrTooLarge
	case err != nil:
		return Event{}, err
	}
	return Event{}, io.EOF
}

// splitLine is a bufio.SplitFunc. It returns a line that ends with CR at once,
// without waiting for a possible LF, and discards an incomplete last line.
func (r *Reader) splitLine(buffered []byte, _ bool) (advance int, line []byte, err error) {
	start := 0
	if r.afterCR && len(buffered) > 0 && buffered[0] == '\n' {
		start = 1
	}
	from := max(start, r.scanned)
	n := bytes.IndexAny(buffered[from:], "\r\n")
	if n < 0 {
		r.scanned = len(buffered)
		return 0, nil, nil
	}
	end := from + n
	r.scanned, r.afterCR = 0, buffered[end] == '\r'
	return end + 1, buffered[start:end], nil
}

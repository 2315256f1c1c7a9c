// Package sse parses event streams (text/event-stream).
//
// It follows the parsing rules of the HTML standard (section 9.2) for untrusted
// input: lines end with LF, CR, or CR LF, a leading byte order mark, comments,
// and unknown fields are ignored, and an incomplete event at the end of the
// stream is discarded.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLarge says that a line or the data of one event exceeds the reader's
// limit. The stream cannot be read any further.
var ErrTooLarge = errors.New("sse: event exceeds the size limit")

// Event is one dispatched event. ID is the last ID that the stream has named,
// which an event without one of its own inherits.
type Event struct {
	Type string // "message" when the block names none
	Data []byte // lines joined by LF
	ID   string
}

// Reader reads events one after the other. It is not safe for concurrent use.
type Reader struct {
	in     *bufio.Reader
	limit  int
	begun  bool
	skipLF bool // the last line ended with CR, so a LF belongs to it
	id     string
}

// NewReader reads from r. limit bounds one line and the data of one event, in
// bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 32<<10), limit: limit}
}

// Next returns the next complete event. At the end of the stream it is io.EOF,
// whether or not a block was cut off there.
func (r *Reader) Next() (Event, error) {
	var kind string
	var data []byte
	var lines int
	for {
		line, err := r.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if lines > 0 {
				return Event{Type: orMessage(kind), Data: data[:len(data)-1], ID: r.id}, nil
			}
			kind, data, lines = "", nil, 0
			continue
		}
		name, value := field(line)
		switch name {
		case "event":
			kind = string(value)
		case "data":
			if len(data)+len(value)+1 > r.limit {
				return Event{}, ErrTooLarge
			}
			data = append(append(data, value...), '\n')
			lines++
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				r.id = string(value)
			}
		}
	}
}

func orMessage(kind string) string {
	if kind == "" {
		return "message"
	}
	return kind
}

// field cuts a line at its first colon; one space after it is dropped. A
// comment has the empty name.
func field(line []byte) (name string, value []byte) {
	before, after, _ := bytes.Cut(line, []byte(":"))
	return string(before), bytes.TrimPrefix(after, []byte(" "))
}

// line reads up to a line end, which is not part of the result. A line that
// the end of the stream cuts off is not returned.
func (r *Reader) line() ([]byte, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	var line []byte
	for {
		piece, ended, err := r.piece()
		if len(line)+len(piece) > r.limit {
			return nil, ErrTooLarge
		}
		line = append(line, piece...)
		if ended || err != nil {
			return line, err
		}
	}
}

// piece takes what is buffered up to a line end, and the line end with it.
func (r *Reader) piece() (piece []byte, ended bool, err error) {
	if _, err := r.in.Peek(1); err != nil {
		return nil, false, err
	}
	buffered, err := r.in.Peek(r.in.Buffered())
	if err != nil {
		return nil, false, err
	}
	if r.skipLF {
		r.skipLF = false
		if buffered[0] == '\n' {
			_, err := r.in.Discard(1)
			return nil, false, err
		}
	}
	n := bytes.IndexAny(buffered, "\r\n")
	if n < 0 {
		piece = bytes.Clone(buffered)
		_, err = r.in.Discard(len(buffered))
		return piece, false, err
	}
	r.skipLF = buffered[n] == '\r'
	piece = bytes.Clone(buffered[:n])
	_, err = r.in.Discard(n + 1)
	return piece, true, err
}

// begin drops the byte order mark that may lead the stream.
func (r *Reader) begin() error {
	if r.begun {
		return nil
	}
	r.begun = true
	mark, err := r.in.Peek(3)
	if err != nil && len(mark) == 0 {
		return err
	}
	if bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, err := r.in.Discard(3)
		return err
	}
	return nil
}

package sqlstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/stint-dev/stint"
)

// A body is the encoding of a batch in one row: a byte for the form, then the records,
// which consist of a time, words, and length-prefixed fields. A body of at least
// compressFrom bytes is compressed with S2 if that saves more than an eighth. S2
// compresses a gigabyte per second and keeps no state between batches.
const (
	formPlain      = 1
	formCompressed = 2

	compressFrom = 1 << 10
	maxBody      = 64 << 20 // longer bodies are not compressed; a body that decompresses to more bytes is damaged
)

// The range of times in milliseconds: the years 1 to 9999.
const (
	firstMilli = -62135596800_000
	lastMilli  = 253402300799_999
)

var errDamaged = errors.New("the body of a batch is damaged")

// Words that are stored as one byte, their index in the list. New words are
// appended, so that the codes do not change. Code 0 is followed by the word
// itself.
var (
	eventTypes = []string{"", string(stint.EventStatus), string(stint.EventOutput), string(stint.EventError), string(stint.EventComplete)}
	logTypes   = []string{"", string(stint.LogAgent), string(stint.LogSystem), string(stint.LogNetwork)}
	logLevels  = []string{"", "debug", "info", "warn", "error"}
)

// EncodedRow holds the encoded events or log entries of a batch.
type EncodedRow struct {
	Count int64 // number of slots
	At    int64 // time of the last record in microseconds
	Body  []byte
}

// EncodeEvents encodes events. If the time of an event is before that of the preceding
// event, it is replaced by the latter.
func EncodeEvents(events []stint.Event) EncodedRow {
	var w writer
	for _, e := range events {
		w.time(e.At)
		w.word(eventTypes, string(e.Type))
		w.bytes(e.Data)
	}
	return w.encoded(len(events))
}

// EncodeEntries encodes log entries like EncodeEvents. It fails if metadata
// cannot be encoded as JSON.
func EncodeEntries(entries []stint.LogEntry) (EncodedRow, error) {
	var w writer
	for i, e := range entries {
		w.time(e.Timestamp)
		w.word(logTypes, string(e.Type))
		w.word(logLevels, e.Level)
		w.bytes([]byte(e.Message))
		var metadata []byte
		if len(e.Metadata) > 0 {
			var err error
			if metadata, err = json.Marshal(e.Metadata); err != nil {
				return EncodedRow{}, fmt.Errorf("metadata of log entry %d: %w", i+1, err)
			}
		}
		w.bytes(metadata)
	}
	return w.encoded(len(entries)), nil
}

// DecodeEvents decodes a body of events. Its first event has the number seq. Times
// before floor, in microseconds, are replaced by floor.
func DecodeEvents(body []byte, seq, floor int64) ([]stint.Event, error) {
	r, err := newReader(body, floor)
	if err != nil {
		return nil, err
	}
	var events []stint.Event
	for ; r.more(); seq++ {
		events = append(events, stint.Event{Seq: seq, At: r.time(), Type: stint.EventType(r.word(eventTypes)), Data: r.bytes()})
	}
	return events, r.err
}

// DecodeEntries decodes a body of log entries. Times before floor, in microseconds, are
// replaced by floor.
func DecodeEntries(body []byte, floor int64) ([]stint.LogEntry, error) {
	r, err := newReader(body, floor)
	if err != nil {
		return nil, err
	}
	var entries []stint.LogEntry
	for r.more() {
		e := stint.LogEntry{Timestamp: r.time(), Type: stint.LogType(r.word(logTypes)), Level: r.word(logLevels), Message: string(r.bytes()), Metadata: map[string]any{}}
		if metadata := r.bytes(); len(metadata) > 0 && r.err == nil {
			if err := json.Unmarshal(metadata, &e.Metadata); err != nil {
				return nil, fmt.Errorf("%w: %w", errDamaged, err)
			}
		}
		entries = append(entries, e)
	}
	return entries, r.err
}

// writer encodes a body. Its first byte is the form.
type writer struct {
	buf  []byte
	last int64 // time of the previous record in milliseconds
	any  bool  // a record was written
}

// time writes the milliseconds since the time of the previous record, or since 1970 in
// the first record. Times never decrease.
func (w *writer) time(t stint.Time) {
	ms := min(max(micros(t)/1000, firstMilli), lastMilli)
	if w.any {
		ms = max(ms, w.last)
	} else {
		w.any, w.buf = true, append(w.buf, formPlain)
	}
	w.buf = binary.AppendVarint(w.buf, ms-w.last)
	w.last = ms
}

func (w *writer) word(known []string, s string) {
	code := max(0, slices.Index(known[1:], s)+1)
	w.buf = append(w.buf, byte(code))
	if code == 0 {
		w.bytes([]byte(s))
	}
}

func (w *writer) bytes(b []byte) {
	w.buf = binary.AppendUvarint(w.buf, uint64(len(b)))
	w.buf = append(w.buf, b...)
}

func (w *writer) encoded(count int) EncodedRow {
	if !w.any {
		return EncodedRow{}
	}
	p := EncodedRow{Count: int64(count), At: w.last * 1000, Body: w.buf}
	if n := len(w.buf); n >= compressFrom && n <= maxBody {
		small := s2.Encode(make([]byte, s2.MaxEncodedLen(n)), w.buf[1:])
		if len(small) < n-n/8 {
			p.Body = append([]byte{formCompressed}, small...)
		}
	}
	return p
}

// reader decodes a body. After the first error its methods return zero values.
type reader struct {
	buf   []byte
	last  int64 // time of the previous record in milliseconds
	any   bool  // a record was read
	floor int64 // milliseconds
	err   error
}

func newReader(body []byte, floor int64) (*reader, error) {
	if len(body) == 0 {
		return nil, errDamaged
	}
	form, rest := body[0], body[1:]
	switch form {
	case formPlain:
		return &reader{buf: rest, floor: floor / 1000}, nil
	case formCompressed:
		n, err := s2.DecodedLen(rest)
		if err != nil || n > maxBody {
			return nil, errDamaged
		}
		plain, err := s2.Decode(nil, rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		return &reader{buf: plain, floor: floor / 1000}, nil
	}
	return nil, errDamaged
}

func (r *reader) more() bool { return r.err == nil && len(r.buf) > 0 }

func (r *reader) fail() {
	r.err, r.buf = errDamaged, nil
}

func (r *reader) time() stint.Time {
	delta, n := binary.Varint(r.buf)
	if n <= 0 || delta < firstMilli || delta > lastMilli-firstMilli || r.any && delta < 0 {
		r.fail()
		return stint.Time{}
	}
	r.buf, r.any = r.buf[n:], true
	if r.last += delta; r.last > lastMilli {
		r.fail()
		return stint.Time{}
	}
	return stint.TimeOfMicros(max(r.last, r.floor) * 1000)
}

func (r *reader) word(known []string) string {
	if len(r.buf) == 0 || int(r.buf[0]) >= len(known) {
		r.fail()
		return ""
	}
	code := r.buf[0]
	r.buf = r.buf[1:]
	if code == 0 {
		return string(r.bytes())
	}
	return known[code]
}

// bytes returns a copy of the next field; nil if it is empty.
func (r *reader) bytes() []byte {
	size, n := binary.Uvarint(r.buf)
	if n <= 0 || size > uint64(len(r.buf)-n) {
		r.fail()
		return nil
	}
	b := r.buf[n : n+int(size)]
	r.buf = r.buf[n+int(size):]
	if size == 0 {
		return nil
	}
	return bytes.Clone(b)
}

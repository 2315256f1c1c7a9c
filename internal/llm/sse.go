package llm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Limits of an event stream, in bytes.
const (
	maxLine  = 16 << 20
	maxEvent = 32 << 20
)

var errTooLong = errors.New("the answer is too long")

// readEvents reads server-sent events and calls each with the data of every event. It
// stops when each returns true or an error, or at the end of the stream, which is not
// an error. It returns errTooLong if a line or an event exceeds its limit.
func readEvents(r io.Reader, each func(data []byte) (last bool, err error)) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 32<<10), maxLine)
	var data []byte
	for in.Scan() {
		line := in.Bytes()
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data)+len(value) > maxEvent {
				return errTooLong
			}
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if len(line) == 0 && len(data) > 0 {
			if last, err := each(data); last || err != nil {
				return err
			}
			data = data[:0]
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return errTooLong
	}
	if in.Err() != nil || len(data) == 0 {
		return in.Err()
	}
	_, err := each(data)
	return err
}

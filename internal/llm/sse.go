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

var errTooLong = errors.New("the answer is longer than any answer should be")

// readEvents reads server-sent events and calls each with their data until it
// returns last or an error. The end of the stream is not an error.
func readEvents(r io.Reader, each func(data []byte) (last bool, err error)) error {
	in := bufio.NewReaderSize(r, 32<<10)
	var line, data []byte
	for {
		var err error
		line, err = readLine(in, line[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		end := err != nil
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data)+len(value) > maxEvent {
				return errTooLong
			}
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if (len(line) == 0 || end) && len(data) > 0 {
			if last, err := each(data); last || err != nil {
				return err
			}
			data = data[:0]
		}
		if end {
			return nil
		}
	}
}

// readLine appends a line without its end to into.
func readLine(in *bufio.Reader, into []byte) ([]byte, error) {
	for {
		piece, err := in.ReadSlice('\n')
		if len(into)+len(piece) > maxLine {
			return into, errTooLong
		}
		into = append(into, piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(into, []byte("\n")), []byte("\r")), err
	}
}

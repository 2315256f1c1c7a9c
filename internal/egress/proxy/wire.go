package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

const (
	maxHeaderBytes = 64 << 20  // bytes of the headers of all requests under way
	maxHead        = 128 << 10 // bytes of a request's line and headers
	maxAnswerHead  = 256 << 10 // bytes of an answer's headers
	maxLine        = 4 << 10   // bytes of a chunk's size with its extensions
	maxTrailer     = 64 << 10
	lingerTime     = 500 * time.Millisecond // for a client to read why it was refused
	lingerSize     = 256 << 10
)

// fault is why a request is not passed on.
type fault struct {
	status  int
	rule    string
	message string
	method  string // of the request, where it was not parsed otherwise
	request int    // its number on the connection, from 1
}

// wire is the client's side of an HTTP/1 connection. It reads the framing of
// requests beside the HTTP server and more strictly, so that what the server
// gets has one meaning only. In place of a request that has not, the server
// gets an empty one and then the end; fault tells the handler, to which
// requests come one after the other, which one that is.
//
// Read is called by one goroutine at a time. An error of the connection, such
// as a deadline, leaves what was read so far for the next call.
type wire struct {
	net.Conn
	in    *bufio.Reader
	state wireState
	head  []byte // of a request, or a line within its body, while it is read
	line  int    // where its last line begins
	spare []byte // head's memory, while out is given from it
	out   []byte // checked and not yet given
	left  int64  // bytes of the body, the chunk or its trailers
	heads int    // requests read
	fault atomic.Pointer[fault]
}

type wireState int

const (
	atHead wireState = iota
	inBody
	atChunk
	inChunk
	afterChunk
	inTrailer
	faulted
	raw
)

var (
	errChunk = errors.New("The request's body is not chunked as it should be.") //nolint:staticcheck // a sentence for the client

	// standIn takes the place of a request that is refused.
	standIn = []byte("GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
)

func newWire(c net.Conn) *wire {
	return &wire{Conn: c, in: bufio.NewReaderSize(c, 4<<10)}
}

func (w *wire) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(w.out) > 0 {
			n := copy(p, w.out)
			if w.out = w.out[n:]; len(w.out) == 0 {
				w.out = nil // not to be held beside what was parsed from it
			}
			return n, nil
		}
		var err error
		switch w.state {
		case atHead:
			err = w.readHead()
		case inBody, inChunk:
			return w.readBody(p)
		case atChunk:
			err = w.readChunkSize()
		case afterChunk:
			err = w.readChunkEnd()
		case inTrailer:
			err = w.readTrailer()
		case raw:
			return w.in.Read(p)
		case faulted:
			err = io.EOF
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// raw ends the reading of requests: from here on bytes are given as they are.
// It is false where a request was refused meanwhile.
func (w *wire) raw() bool {
	if w.state == faulted {
		return false
	}
	w.out = append(w.out, w.head...)
	w.head, w.state = nil, raw
	return true
}

// readLine reads to the end of a line, into head. Its end is CR LF.
func (w *wire) readLine(limit int) (line []byte, f *fault, err error) {
	if w.head == nil {
		w.head, w.spare = w.spare, nil
	}
	for {
		part, err := w.in.ReadSlice('\n')
		w.head = append(w.head, part...)
		if len(w.head) > limit {
			return nil, &fault{status: 431, rule: ruleFraming, message: "The request's headers are larger than 128 KiB."}, nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(w.head) > 0:
			return nil, nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, nil, err
		}
		line = w.head[w.line:]
		w.line = len(w.head)
		if len(line) < 2 || line[len(line)-2] != '\r' {
			return nil, badFraming("A line of the request ends without CR."), nil
		}
		return line[:len(line)-2], nil, nil
	}
}

func (w *wire) readHead() error {
	for {
		line, f, err := w.readLine(maxHead)
		if err != nil {
			return err
		}
		var body framing
		if f == nil && len(line) == 0 {
			body, f = checkHead(w.head)
		}
		if f != nil {
			w.refuse(f)
			return nil
		}
		if len(line) == 0 {
			w.heads++
			w.give()
			w.left, w.state = body.length, atHead
			if body.chunked {
				w.state = atChunk
			} else if body.length > 0 {
				w.state = inBody
			}
			return nil
		}
	}
}

func (w *wire) refuse(f *fault) {
	w.heads++
	f.request, f.method = w.heads, methodOf(w.head)
	w.fault.Store(f)
	w.out, w.head, w.line, w.state = standIn, nil, 0, faulted
}

// breakOff refuses the request whose body is being read.
func (w *wire) breakOff() error {
	f := badFraming(errChunk.Error())
	f.request = w.heads
	w.fault.Store(f)
	w.state = faulted
	return errChunk
}

func (w *wire) readBody(p []byte) (int, error) {
	n, err := w.in.Read(p[:min(int64(len(p)), w.left)])
	if w.left -= int64(n); w.left == 0 {
		if w.state == inChunk {
			w.state = afterChunk
		} else {
			w.state = atHead
		}
	}
	return n, err
}

func (w *wire) readChunkSize() error {
	line, f, err := w.readLine(maxLine)
	if err != nil {
		return err
	}
	size, ok := chunkSize(line)
	if f != nil || !ok {
		return w.breakOff()
	}
	w.give()
	if size > 0 {
		w.left, w.state = size, inChunk
	} else {
		w.left, w.state = maxTrailer, inTrailer
	}
	return nil
}

func (w *wire) readChunkEnd() error {
	line, f, err := w.readLine(2)
	if err != nil {
		return err
	}
	if f != nil || len(line) > 0 {
		return w.breakOff()
	}
	w.give()
	w.state = atChunk
	return nil
}

func (w *wire) readTrailer() error {
	line, f, err := w.readLine(int(w.left))
	if err != nil {
		return err
	}
	if f == nil && len(line) > 0 {
		_, _, f = checkField(line)
	}
	if f != nil {
		return w.breakOff()
	}
	w.left -= int64(len(w.head))
	if len(line) == 0 {
		w.state = atHead
	}
	w.give()
	return nil
}

// give hands out what was read. Its memory serves again when all was given.
func (w *wire) give() {
	w.out, w.spare, w.head, w.line = w.head, nil, nil, 0
	if cap(w.out) <= 16<<10 {
		w.spare = w.out[:0]
	}
}

// CloseWrite ends what is sent, where the connection can.
func (w *wire) CloseWrite() error {
	if c, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close closes the connection. A client that was refused may still be sending;
// without reading that, its system would drop the answer.
func (w *wire) Close() error {
	if w.fault.Load() != nil && w.CloseWrite() == nil {
		_ = w.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, w.Conn, lingerSize)
	}
	return w.Conn.Close()
}

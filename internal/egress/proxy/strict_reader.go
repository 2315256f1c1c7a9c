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
	maxHeaderBytes  = 64 << 20  // maximum bytes of the headers of all requests in progress
	maxHead         = 128 << 10 // maximum bytes of a request's first line and headers
	maxResponseHead = 256 << 10 // maximum bytes of a response's headers
	maxLine         = 4 << 10   // maximum bytes of a chunk's size line
	maxTrailer      = 64 << 10
	lingerTime      = 500 * time.Millisecond // time for a client to read the response to a refused request
	lingerSize      = 256 << 10
)

// fault is the reason why a request is not forwarded.
type fault struct {
	status  int
	rule    string
	message string
	method  string // method of a request that was not parsed completely
	request int    // number of the request on the connection, from 1; 0 if a strictReader did not refuse it
}

// strictReader is an HTTP/1 connection of a client. It parses the framing of requests
// before net/http does, and more strictly, so that net/http receives only requests with
// one possible interpretation. If the head of a request is refused, net/http receives an
// empty request and then the end of the connection. If a chunked body is refused, Read
// returns errChunk. In both cases the field fault contains the reason and the number of
// the request.
//
// Read must be called by one goroutine at a time. After an error of the connection, such
// as an exceeded deadline, the next call of Read continues.
type strictReader struct {
	net.Conn
	in       *bufio.Reader
	state    readerState
	head     []byte // head of a request, or a line of a chunked body, that is being read
	line     int    // offset of the last line in head
	spare    []byte // memory for the next head
	out      []byte // bytes that were checked and not returned yet
	left     int64  // remaining bytes of the body, of the chunk, or of the trailers' limit
	requests int    // number of requests read so far
	fault    atomic.Pointer[fault]
}

type readerState int

const (
	atHead readerState = iota
	inBody
	atChunk
	inChunk
	afterChunk
	inTrailer
	faulted
	raw
)

var (
	errChunk = errors.New("The chunked encoding of the request's body is malformed.") //nolint:staticcheck // a sentence for the client

	// emptyRequest is the request that net/http receives instead of a refused request.
	emptyRequest = []byte("GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n")
)

func newStrictReader(c net.Conn) *strictReader {
	return &strictReader{Conn: c, in: bufio.NewReaderSize(c, 4<<10)}
}

func (r *strictReader) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if len(r.out) > 0 {
			n := copy(p, r.out)
			if r.out = r.out[n:]; len(r.out) == 0 {
				r.out = nil // release the memory
			}
			return n, nil
		}
		var err error
		switch r.state {
		case atHead:
			err = r.readHead()
		case inBody, inChunk:
			return r.readBody(p)
		case atChunk:
			err = r.readChunkSize()
		case afterChunk:
			err = r.readChunkEnd()
		case inTrailer:
			err = r.readTrailer()
		case raw:
			return r.in.Read(p)
		case faulted:
			err = io.EOF
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// setRaw ends the parsing of requests, so that Read returns further bytes unchanged. If a
// request was refused already, setRaw returns false.
func (r *strictReader) setRaw() bool {
	if r.state == faulted {
		return false
	}
	r.out = append(r.out, r.head...)
	r.head, r.state = nil, raw
	return true
}

// readLine appends the next line to head and returns the line without CR LF. If the line
// does not end with CR LF, or head exceeds limit bytes, it returns a fault. After an
// error, the next call continues.
func (r *strictReader) readLine(limit int) (line []byte, f *fault, err error) {
	if r.head == nil {
		r.head, r.spare = r.spare, nil
	}
	for {
		part, err := r.in.ReadSlice('\n')
		r.head = append(r.head, part...)
		if len(r.head) > limit {
			return nil, &fault{status: 431, rule: ruleFraming, message: "The request's headers are larger than 128 KiB."}, nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.head) > 0:
			return nil, nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, nil, err
		}
		line = r.head[r.line:]
		r.line = len(r.head)
		if len(line) < 2 || line[len(line)-2] != '\r' {
			return nil, badFraming("A line of the request ends without CR."), nil
		}
		return line[:len(line)-2], nil, nil
	}
}

func (r *strictReader) readHead() error {
	for {
		line, f, err := r.readLine(maxHead)
		if err != nil {
			return err
		}
		var body framing
		if f == nil && len(line) == 0 {
			body, f = checkHead(r.head)
		}
		if f != nil {
			r.refuse(f)
			return nil
		}
		if len(line) == 0 {
			r.requests++
			r.release()
			r.left, r.state = body.length, atHead
			if body.chunked {
				r.state = atChunk
			} else if body.length > 0 {
				r.state = inBody
			}
			return nil
		}
	}
}

func (r *strictReader) refuse(f *fault) {
	r.requests++
	f.request, f.method = r.requests, methodOf(r.head)
	r.fault.Store(f)
	r.out, r.head, r.line, r.state = emptyRequest, nil, 0, faulted
}

// refuseBody refuses the current request, because its chunked body is malformed.
func (r *strictReader) refuseBody() error {
	f := badFraming(errChunk.Error())
	f.request = r.requests
	r.fault.Store(f)
	r.state = faulted
	return errChunk
}

func (r *strictReader) readBody(p []byte) (int, error) {
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); r.left == 0 {
		if r.state == inChunk {
			r.state = afterChunk
		} else {
			r.state = atHead
		}
	}
	return n, err
}

func (r *strictReader) readChunkSize() error {
	line, f, err := r.readLine(maxLine)
	if err != nil {
		return err
	}
	size, ok := chunkSize(line)
	if f != nil || !ok {
		return r.refuseBody()
	}
	r.release()
	if size > 0 {
		r.left, r.state = size, inChunk
	} else {
		r.left, r.state = maxTrailer, inTrailer
	}
	return nil
}

func (r *strictReader) readChunkEnd() error {
	line, f, err := r.readLine(2)
	if err != nil {
		return err
	}
	if f != nil || len(line) > 0 {
		return r.refuseBody()
	}
	r.release()
	r.state = atChunk
	return nil
}

func (r *strictReader) readTrailer() error {
	line, f, err := r.readLine(int(r.left))
	if err != nil {
		return err
	}
	if f == nil && len(line) > 0 {
		_, _, f = checkField(line)
	}
	if f != nil {
		return r.refuseBody()
	}
	r.left -= int64(len(r.head))
	if len(line) == 0 {
		r.state = atHead
	}
	r.release()
	return nil
}

// release moves the content of head to out, so that Read returns it. Unless the memory is
// large, it is reused for the next head.
func (r *strictReader) release() {
	r.out, r.spare, r.head, r.line = r.head, nil, nil, 0
	if cap(r.out) <= 16<<10 {
		r.spare = r.out[:0]
	}
}

// CloseWrite closes the sending direction of the connection to the client. If the
// connection does not support this, CloseWrite does nothing.
func (r *strictReader) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close closes the connection. After a refused request, the client may still be sending.
// Close then reads at most lingerSize bytes for up to lingerTime, because otherwise the
// client's system could discard the response.
func (r *strictReader) Close() error {
	if r.fault.Load() != nil && r.CloseWrite() == nil {
		_ = r.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, r.Conn, lingerSize)
	}
	return r.Conn.Close()
}

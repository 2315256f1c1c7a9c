package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// patience bounds every single wait for a server.
const patience = 30 * time.Second

// conn is a keep-alive HTTP/1.1 connection for one goroutine. It does next to
// nothing, since it shares the processor with the server that is measured.
type conn struct {
	net.Conn
	r    *bufio.Reader
	body []byte
}

func dial(ctx context.Context, address string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 16<<10)}, nil
}

// dialAll opens n connections; the caller closes them by the function.
func dialAll(ctx context.Context, address string, n int) ([]*conn, func(), error) {
	conns := make([]*conn, 0, n)
	closeAll := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range n {
		c, err := dial(ctx, address)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		conns = append(conns, c)
	}
	return conns, closeAll, nil
}

// request writes a request for exchange. The body may be empty.
func request(method, path, token, body string, headers ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n", method, path, token)
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	} else if method == "POST" {
		b.WriteString("Content-Length: 0\r\n")
	}
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// exchange sends a request and reads its answer. The body is valid until the
// next call.
func (c *conn) exchange(request []byte) (status int, body []byte, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, nil, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, nil, err
	}
	status, length, err := c.readHead()
	if err != nil {
		return 0, nil, err
	}
	c.body = c.body[:0]
	switch {
	case status == 204 || status == 304:
	case length >= 0:
		err = c.readBody(length)
	default:
		err = c.readChunks()
	}
	return status, c.body, err
}

// want is exchange for an answer of one status; others are errors that tell
// the answer.
func (c *conn) want(status int, request []byte) ([]byte, error) {
	got, body, err := c.exchange(request)
	if err == nil && got != status {
		line, _, _ := bytes.Cut(request, []byte("\r\n"))
		err = fmt.Errorf("%s: status %d, want %d: %.300s", line, got, status, body)
	}
	return body, err
}

// readHead reads up to the body; length is -1 when it comes in chunks.
func (c *conn) readHead() (status, length int, err error) {
	line, err := c.readLine()
	if err != nil {
		return 0, 0, err
	}
	if len(line) < 12 || !strings.HasPrefix(line, "HTTP/1.1 ") {
		return 0, 0, fmt.Errorf("no HTTP answer: %.60q", line)
	}
	if status, err = strconv.Atoi(line[9:12]); err != nil {
		return 0, 0, fmt.Errorf("no HTTP status: %.60q", line)
	}
	for {
		if line, err = c.readLine(); err != nil || line == "" {
			return status, length, err
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case strings.EqualFold(name, "Content-Length"):
			if length, err = strconv.Atoi(value); err != nil || length < 0 {
				return 0, 0, fmt.Errorf("no length: %.60q", line)
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			length = -1
		}
	}
}

func (c *conn) readLine() (string, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(bytes.TrimRight(line, "\r\n")), nil
}

func (c *conn) readBody(n int) error {
	at := len(c.body)
	if free := cap(c.body) - at; free < n {
		c.body = append(make([]byte, 0, at+2*n), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}

func (c *conn) readChunks() error {
	for {
		if n, err := c.readChunk(); err != nil || n == 0 {
			return err
		}
	}
}

// readChunk adds a chunk to the body; the last one is empty.
func (c *conn) readChunk() (int, error) {
	n, err := c.chunkSize()
	if err != nil {
		return 0, err
	}
	if err := c.readBody(n); err != nil {
		return 0, err
	}
	line, err := c.readLine()
	if err == nil && line != "" {
		err = errors.New("a chunk does not end")
	}
	return n, err
}

func (c *conn) chunkSize() (int, error) {
	line, err := c.readLine()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(line, 16, 24)
	if err != nil {
		return 0, fmt.Errorf("no chunk: %.60q", line)
	}
	return int(n), nil
}

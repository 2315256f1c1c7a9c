package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// switchProtocols forwards the response to an upgrade request, and then the bytes in both
// directions until both sides have closed their sending direction or an error occurs. If
// the client did not request an upgrade, it responds with an error.
func (x *exchange) switchProtocols(res *http.Response) (complete bool) {
	server, ok := res.Body.(io.ReadWriteCloser)
	if !ok || x.upgrade == "" {
		x.record.Err = errors.New("the server switched protocols without a request to do so")
		return x.answer(http.StatusBadGateway, x.record.Host+" switched protocols without a request to do so.")
	}
	x.record.Status, x.record.Protocol = res.StatusCode, strings.ToLower(x.upgrade)
	x.copyHeader(res.Header)
	header := x.w.Header()
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, x.redact(res.Header["Upgrade"])
	client, early, err := x.hijack()
	if err == nil {
		defer client.Close()
		defer context.AfterFunc(x.conn.ctx, func() { client.Close(); server.Close() })()
		err = writeSwitch(client, header)
	}
	if err != nil {
		x.record.Err = err
		return true // the connection is closed, so there is no response
	}
	if err := x.copyBoth(client, early, server); err != nil {
		x.record.Err = x.endError(err)
	}
	return true
}

// hijack takes the client's connection from net/http. It returns the connection and the
// bytes that net/http has read ahead.
func (x *exchange) hijack() (net.Conn, []byte, error) {
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if !x.conn.reader.setRaw() {
		client.Close()
		return nil, nil, errors.New("the client sent another request before the upgrade")
	}
	early, err := buffered.Peek(buffered.Reader.Buffered())
	return client, early, err
}

func writeSwitch(client net.Conn, header http.Header) error {
	w := bufio.NewWriter(client)
	_, _ = w.WriteString("HTTP/1.1 101 Switching Protocols\r\n") // Flush reports the error
	_ = header.Write(w)
	_, _ = w.WriteString("\r\n")
	return w.Flush()
}

// copyBoth writes the early bytes to the server and copies bytes in both directions. The
// end of a direction is forwarded. An error closes both connections.
func (x *exchange) copyBoth(client net.Conn, early []byte, server io.ReadWriteCloser) error {
	if _, err := server.Write(early); err != nil {
		return err
	}
	x.sent.Add(int64(len(early)))
	failed := make(chan error, 1)
	go func() {
		err := copyStream(server, client, &x.sent)
		if err != nil {
			client.Close()
			server.Close()
		}
		failed <- err
	}()
	err := copyStream(client, server, &x.received)
	if err != nil {
		client.Close()
		server.Close()
	}
	if other := <-failed; err == nil || errors.Is(err, net.ErrClosed) {
		err = other
	}
	return err
}

// copyStream copies bytes until the end of from, adds their number to count, and closes
// the sending direction of to.
func copyStream(to io.Writer, from io.Reader, count *atomic.Int64) error {
	buf := buffers.Get().(*[copySize]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:])
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return werr
			}
			count.Add(int64(n))
		}
		if errors.Is(err, io.EOF) {
			if c, ok := to.(interface{ CloseWrite() error }); ok {
				return c.CloseWrite()
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

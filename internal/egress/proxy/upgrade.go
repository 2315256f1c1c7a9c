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

// switchProtocols passes on the answer to an upgrade, then bytes both ways
// until both sides have ended.
func (x *exchange) switchProtocols(res *http.Response) (whole bool) {
	server, ok := res.Body.(io.ReadWriteCloser)
	if !ok || x.upgrade == "" {
		x.rec.Err = errors.New("the server switched protocols and was not asked to")
		return x.answer(http.StatusBadGateway, x.rec.Host+" switched protocols and was not asked to.")
	}
	x.rec.Status, x.rec.Protocol = res.StatusCode, strings.ToLower(x.upgrade)
	x.copyHeader(res.Header)
	header := x.w.Header()
	header["Connection"], header["Upgrade"] = []string{"Upgrade"}, x.concealed(res.Header["Upgrade"])
	client, early, err := x.hijack()
	if err == nil {
		defer client.Close()
		defer context.AfterFunc(x.s.ctx, func() { client.Close(); server.Close() })()
		err = writeSwitch(client, header)
	}
	if err != nil {
		x.rec.Err = err
		return true // the connection is closed; there is nobody to tell
	}
	if err := x.shuttle(client, early, server); err != nil {
		x.rec.Err = x.ended(err)
	}
	return true
}

// hijack takes the client's connection and what was read of it already.
func (x *exchange) hijack() (net.Conn, []byte, error) {
	client, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if !x.s.wire.raw() {
		client.Close()
		return nil, nil, errors.New("the client sent another request before the upgrade")
	}
	early, err := buffered.Peek(buffered.Reader.Buffered())
	return client, early, err
}

func writeSwitch(client net.Conn, header http.Header) error {
	w := bufio.NewWriter(client)
	_, _ = w.WriteString("HTTP/1.1 101 Switching Protocols\r\n") // Flush tells of errors
	_ = header.Write(w)
	_, _ = w.WriteString("\r\n")
	return w.Flush()
}

// shuttle copies both ways. The end of one direction ends that direction on
// the other side; a failure ends both.
func (x *exchange) shuttle(client net.Conn, early []byte, server io.ReadWriteCloser) error {
	if _, err := server.Write(early); err != nil {
		return err
	}
	x.sent.Add(int64(len(early)))
	failed := make(chan error, 1)
	go func() {
		err := stream(server, client, &x.sent)
		if err != nil {
			client.Close()
			server.Close()
		}
		failed <- err
	}()
	err := stream(client, server, &x.received)
	if err != nil {
		client.Close()
		server.Close()
	}
	if other := <-failed; err == nil || errors.Is(err, net.ErrClosed) {
		err = other
	}
	return err
}

// stream copies to the end, then says so.
func stream(to io.Writer, from io.Reader, count *atomic.Int64) error {
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

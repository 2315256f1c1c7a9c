package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"time"
)

// errNoSocket reports that no server answers on the socket in its data directory.
var errNoSocket = errors.New("no server answers on the login socket")

// socketLimit is the time limit of askSocket.
const socketLimit = 30 * time.Second

// askSocket sends a request with the JSON body in through the socket, and returns the
// status and body of the response. If no server answers, the error is errNoSocket.
func askSocket(ctx context.Context, socket, method, path string, in any) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, socketLimit)
	defer cancel()
	res, err := openSocket(ctx, socket, method, path, in)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(res.Body, 16<<20)); err != nil {
		return 0, nil, fmt.Errorf("read the server's answer: %w", err)
	}
	return res.StatusCode, answer, nil
}

// openSocket sends a request with the JSON body in through the socket and returns the
// response. The caller must close the response's body. If no server answers, the error
// is errNoSocket.
func openSocket(ctx context.Context, socket, method, path string, in any) (*http.Response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://stint"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, socketError(socket, err)
	}
	return res, nil
}

func socketError(socket string, err error) error {
	var refused *net.OpError
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("only the owner of the data folder may use %s: run this as that user", socket)
	case errors.As(err, &refused) && refused.Op == "dial":
		return errNoSocket
	}
	return fmt.Errorf("ask through %s: %w", socket, err)
}

// refusal returns the error for a response with an unexpected status.
func refusal(status int, body []byte) error {
	var answer struct{ Error string }
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		return errors.New(answer.Error)
	}
	return fmt.Errorf("the server refused the request with status %d", status)
}

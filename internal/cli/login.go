package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/config"
)

// loginRequest is what the login socket asks for.
type loginRequest struct {
	Org           string `json:"org"`
	User          string `json:"user"`
	Name          string `json:"name"`
	ExpiresInDays int    `json:"expiresInDays"`
}

// complete says what the person did not: their name on this machine and the
// organisation that everybody shares.
func (r loginRequest) complete(getenv func(string) string) loginRequest {
	r.User = cmp.Or(r.User, getenv("USER"), getenv("LOGNAME"), "owner")
	r.Org = cmp.Or(r.Org, "default")
	r.Name = cmp.Or(r.Name, "login")
	r.ExpiresInDays = cmp.Or(r.ExpiresInDays, stint.DefaultTokenDays)
	return r
}

// loginAnswer is the new token and the address of the server that made it.
type loginAnswer struct {
	stint.Token
	URL string `json:"url"`
}

// errNoSocket says that no server of this machine answers on the socket.
var errNoSocket = errors.New("no server answers on the login socket")

// socketLimit bounds a request through the socket.
const socketLimit = 30 * time.Second

// loginAt asks for a token through the socket of a data folder, which only the
// folder's owner can open.
func loginAt(ctx context.Context, socket string, in loginRequest) (loginAnswer, error) {
	status, answer, err := askSocket(ctx, socket, http.MethodPost, "/login", in)
	if err != nil {
		return loginAnswer{}, err
	}
	return parseLogin(status, answer)
}

// askSocket sends a request to the server that a data folder's owner reaches.
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

// openSocket sends a request and gives the answer as it comes. The caller
// closes its body.
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

func parseLogin(status int, body []byte) (loginAnswer, error) {
	var answer loginAnswer
	if status == http.StatusCreated || status == http.StatusOK {
		if err := json.Unmarshal(body, &answer); err != nil || answer.Secret == "" {
			return loginAnswer{}, errors.New("the server's login answer holds no token: is it of another version?")
		}
		return answer, nil
	}
	return loginAnswer{}, refusal(status, body)
}

// refusal is what an answer that is no success says.
func refusal(status int, body []byte) error {
	var told struct{ Error string }
	if json.Unmarshal(body, &told) == nil && told.Error != "" {
		return errors.New(told.Error)
	}
	return fmt.Errorf("the server refused the request with status %d", status)
}

// days turns --expires into whole days, 1 to 365; 0 when it was not given.
func days(value string) (int, error) {
	if value == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(value)
	if err != nil {
		return 0, err
	}
	n := int((d + 24*time.Hour - 1) / (24 * time.Hour))
	if n < 1 || n > stint.MaxTokenDays {
		return 0, fmt.Errorf("'%s' is not between 1d and %dd", value, stint.MaxTokenDays)
	}
	return n, nil
}

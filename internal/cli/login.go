package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/config"
)

// loginRequest is the body of a request to the login socket.
type loginRequest struct {
	Org       string      `json:"org"`
	User      string      `json:"user"`
	Name      string      `json:"name"`
	ExpiresAt *stint.Time `json:"expiresAt,omitempty"`
}

// complete fills empty fields with defaults: the user's name on this machine, the
// default organisation, the name "login", and stint.DefaultTokenDays.
func (r loginRequest) complete(getenv func(string) string) loginRequest {
	r.User = cmp.Or(r.User, getenv("USER"), getenv("LOGNAME"), "owner")
	r.Org = cmp.Or(r.Org, "default")
	r.Name = cmp.Or(r.Name, "login")
	return r
}

// loginAnswer contains a new token and the address of its server.
type loginAnswer struct {
	stint.Token
	URL string `json:"url"`
}

// A login waits for the socket of a server that is starting, for loginWait. It reports
// that it waits after loginNote.
const (
	loginWait = 5 * time.Second
	loginNote = time.Second
	pollEvery = 50 * time.Millisecond
)

// loginSoon is loginAt for a server that may be starting. If no server answers within
// loginWait, the error is errNoSocket.
func (a *app) loginSoon(ctx context.Context, socket string, in loginRequest) (loginAnswer, error) {
	limit, note := time.After(loginWait), time.After(loginNote)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		made, err := loginAt(ctx, socket, in)
		if !errors.Is(err, errNoSocket) {
			return made, err
		}
		select {
		case <-ctx.Done():
			return loginAnswer{}, context.Cause(ctx)
		case <-limit:
			return loginAnswer{}, err
		case <-note:
			a.note("No server answers at %s yet; waiting %s for one that is starting.", socket, loginWait-loginNote)
		case <-tick.C:
		}
	}
}

// loginAt requests a token through the socket in a data directory, which only the
// owner of the directory can open. If no server is running there, the error is
// errNoSocket.
func loginAt(ctx context.Context, socket string, in loginRequest) (loginAnswer, error) {
	status, answer, err := askSocket(ctx, socket, http.MethodPost, "/login", in)
	if err != nil {
		return loginAnswer{}, err
	}
	return parseLogin(status, answer)
}

func parseLogin(status int, body []byte) (loginAnswer, error) {
	var answer loginAnswer
	if status == http.StatusCreated || status == http.StatusOK {
		if err := json.Unmarshal(body, &answer); err != nil || answer.Secret == "" {
			return loginAnswer{}, errors.New("the server's login answer contains no token: is it another version?")
		}
		return answer, nil
	}
	return loginAnswer{}, refusal(status, body)
}

// revokeAt revokes a new token through the socket, which works even if the server's
// address does not. The token's request may have been interrupted; revokeAt is not.
func revokeAt(ctx context.Context, socket string, made loginAnswer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	status, answer, err := askSocket(ctx, socket, http.MethodPost, "/logout", map[string]string{"token": made.Secret})
	if err == nil && status != http.StatusOK {
		err = refusal(status, answer)
	}
	if err != nil {
		return fmt.Errorf("revoke the new token %s: %w", made.ID, err)
	}
	return nil
}

// expiry converts the value of --expires, a duration from stint.MinTokenLife to
// stint.MaxTokenLife, to the time at which a token expires. If the value is empty, expiry
// returns nil.
func expiry(value string, now time.Time) (*stint.Time, error) {
	if value == "" {
		return nil, nil
	}
	d, err := config.ParseDuration(value)
	if err != nil {
		return nil, err
	}
	if d < stint.MinTokenLife || d > stint.MaxTokenLife {
		return nil, fmt.Errorf("'%s' is not between 1m and %dd", value, stint.MaxTokenDays)
	}
	at := stint.TimeOf(now.Add(d))
	return &at, nil
}

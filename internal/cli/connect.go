package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/stint-dev/stint/client"
)

// defaultURL is the default address of a server.
const defaultURL = "http://127.0.0.1:8700"

// account is a server and the token for it.
type account struct {
	credentials
	fromEnv bool // the token comes from STINT_TOKEN
}

// account returns the server and its token. The server is that of the flag --url,
// STINT_URL, the stored credentials, or defaultURL, in this order. The token is
// that of STINT_TOKEN or the stored one. The stored token is used only for the
// server that it is stored with.
func (a *app) account() (account, error) {
	stored, err := a.readCredentials()
	if err != nil {
		return account{}, err
	}
	found := account{credentials: stored}
	for _, address := range []string{a.getenv("STINT_URL"), a.url} {
		if address != "" {
			found.URL = strings.TrimRight(address, "/")
		}
	}
	if found.URL == "" {
		found.URL = defaultURL
	}
	if token := strings.TrimSpace(a.getenv("STINT_TOKEN")); token != "" {
		found.Token, found.TokenID, found.fromEnv = token, "", true
	} else if found.URL != stored.URL {
		found.Token, found.TokenID = "", ""
	}
	return found, nil
}

// client returns a client for the current account. It makes few attempts, because
// the user waits for the response.
func (a *app) client() (*client.Client, error) { return a.connect(3) }

// follower returns a client that makes enough attempts to survive a restart of the
// server.
func (a *app) follower() (*client.Client, error) { return a.connect(10) }

func (a *app) connect(attempts int) (*client.Client, error) {
	server, err := a.account()
	if err != nil {
		return nil, err
	}
	if server.Token == "" {
		return nil, a.noLogin(server.URL)
	}
	return a.clientFor(server.URL, server.Token, attempts)
}

// noLogin returns the error for a server without a token. If the user has named the
// server and it does not answer, the error says so.
func (a *app) noLogin(address string) error {
	if cmp.Or(a.url, a.getenv("STINT_URL")) != "" {
		if _, err := a.clientFor(address, "", 1); err != nil {
			return err
		}
		probe := http.Client{Transport: adviser{http.DefaultTransport}, Timeout: probeLimit}
		res, err := probe.Get(address + "/healthz")
		if refused, ok := errors.AsType[*notServing](err); ok {
			return fmt.Errorf("nothing answers at %s: start a server there with 'stint serve', or name another with --url or STINT_URL: %w", address, refused.cause)
		}
		if err != nil {
			return fmt.Errorf("no answer from %s: %w", address, errors.Unwrap(err)) // without the method and the address
		}
		_ = res.Body.Close() // the content does not matter
	}
	return fmt.Errorf("you are not logged in to %s: run 'stint auth login', or put a token into STINT_TOKEN", address)
}

// probeLimit is how long noLogin waits for an answer.
const probeLimit = 3 * time.Second

func (a *app) clientFor(address, token string, attempts int) (*client.Client, error) {
	c, err := client.New(client.Options{
		URL: address, Token: token, UserAgent: "stint/" + buildVersion(),
		HTTP: &http.Client{Transport: adviser{http.DefaultTransport}}, Attempts: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: check --url, STINT_URL or log in again", err)
	}
	return c, nil
}

// adviser is a transport that adds advice to common connection errors.
type adviser struct{ next http.RoundTripper }

// notServing is the error of a connection that was refused.
type notServing struct{ cause error }

func (e *notServing) Error() string {
	return "no server answers there: start one with 'stint serve', or name another with --url or STINT_URL"
}
func (e *notServing) Unwrap() error { return e.cause }

func (t adviser) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &notServing{err}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, fmt.Errorf("the host '%s' is not known: check --url or STINT_URL: %w", dns.Name, err)
	}
	return res, err
}

// isLocal reports whether the host of a URL is localhost or a loopback address.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

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
	"github.com/stint-dev/stint/internal/buildinfo"
)

// defaultURL is the default address of a server.
const defaultURL = "http://127.0.0.1:8700"

// account is a server and the token for it.
type account struct {
	credentials
	context string // the context that contains the token; empty for STINT_TOKEN
}

// account returns the server and its token. The flag --context chooses a context and
// takes precedence over the environment. Otherwise the server is that of the flag --url,
// STINT_URL, the context in STINT_CONTEXT, the current context, or defaultURL, in this
// order, and the token is that of STINT_TOKEN or of a context with this server. A stored
// token is used only for the server that it is stored with.
func (a *app) account() (account, error) {
	stored, err := a.readContexts()
	if err != nil {
		return account{}, err
	}
	name := a.selected(stored)
	var found account
	if name != "" {
		if found.credentials, err = stored.find(name); err != nil {
			return account{}, err
		}
		found.context = name
	}
	address := a.url
	if a.context == "" {
		address = cmp.Or(a.url, a.getenv("STINT_URL"))
	}
	address = strings.TrimRight(address, "/")
	if token := strings.TrimSpace(a.getenv("STINT_TOKEN")); token != "" && a.context == "" {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return account{}, errors.New("STINT_TOKEN is not a token, because it contains spaces, line breaks, or other special characters: use the output of 'stint auth token' or 'stint token create'")
		}
		return account{credentials: credentials{URL: cmp.Or(address, found.URL, defaultURL), Token: token}}, nil
	}
	if address == "" || address == found.URL {
		found.URL = cmp.Or(found.URL, defaultURL)
		return found, nil
	}
	if a.context != "" {
		return account{credentials: credentials{URL: address}}, nil
	}
	return stored.only(address)
}

// selected returns the name of the context that the flag --context, STINT_CONTEXT, or the
// configuration chooses, in this order.
func (a *app) selected(stored *contexts) string {
	return cmp.Or(a.context, a.getenv("STINT_CONTEXT"), stored.Current)
}

// only returns the account of the only context with the given server. Without such a
// context, the account has no token.
func (s *contexts) only(address string) (account, error) {
	switch names := s.at(address); len(names) {
	case 0:
		return account{credentials: credentials{URL: address}}, nil
	case 1:
		return account{s.Logins[names[0]], names[0]}, nil
	default:
		return account{}, fmt.Errorf("there are several logins for %s: choose one of the contexts %s with --context", address, strings.Join(names, ", "))
	}
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
		URL: address, Token: token, UserAgent: "stint/" + buildinfo.Version(),
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

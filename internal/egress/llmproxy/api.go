package llmproxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// apiPath is the only path of the API that agents may use. It serves the MCP tools.
const apiPath = "/mcp"

var errPath = errors.New("agents may use only " + apiPath + " of the API")

// API passes the requests of a run's sandbox to the server's own API.
type API struct {
	Handler http.Handler
	Token   string // the run's token
}

// HandlerFor returns the handler of a request to the API and sets the rule of x. If the
// path is not allowed, the handler responds with an error and records the refusal in x.
func (a API) HandlerFor(r *http.Request, x *proxy.Exchange) proxy.LocalHandler {
	x.Rule = RuleAPI
	if r.URL.Path != apiPath {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			x.Refused, x.Err = true, errPath
			writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]string{
				"type": "not_found_error", "code": stint.CodeResourceNotFound, "message": "Agents may use only " + apiPath + " of the API.",
			}})
			return true
		}
	}
	return a.serve
}

// serve calls the API's handler. If the handler aborts its response with
// http.ErrAbortHandler, serve returns false.
func (a API) serve(w http.ResponseWriter, r *http.Request) (complete bool) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			complete = false
		default:
			panic(v)
		}
	}()
	a.Handler.ServeHTTP(w, a.authenticated(r))
	return true
}

// authenticated returns a copy of the request with the run's token instead of the
// client's credentials. It omits hop-by-hop headers, headers of proxies, and the headers
// in dropped except Content-Length.
func (a API) authenticated(r *http.Request) *http.Request {
	out := r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, aliasAddr(stint.APIAlias)))
	out.Header = make(http.Header, len(r.Header))
	for n, values := range r.Header {
		if !proxy.IsHopByHop(n, r.Header["Connection"]) && (!dropped[n] || n == "Content-Length") && !strings.HasPrefix(n, "X-Forwarded-") && !strings.HasPrefix(n, "Proxy-") {
			out.Header[n] = values
		}
	}
	out.Header.Set("Authorization", "Bearer "+a.Token)
	out.URL = &url.URL{Path: apiPath, RawQuery: r.URL.RawQuery}
	out.Host, out.RequestURI = stint.APIAlias, out.URL.RequestURI()
	return out
}

// aliasAddr is the local address of a request that a sandbox sends to the API. It is the
// API's name in the sandbox instead of an address of this machine, so that no handler
// takes the request for one that a program on this machine sent to a loopback address.
type aliasAddr string

func (aliasAddr) Network() string  { return "tcp" }
func (a aliasAddr) String() string { return string(a) + ":80" }

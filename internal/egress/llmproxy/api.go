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

// apiPath is what agents may ask of the server: its tools, nothing else.
const apiPath = "/mcp"

var errPath = errors.New("agents reach " + apiPath + " of the API and nothing else")

// API answers a run's requests for the server's own API.
type API struct {
	Handler http.Handler
	Token   string // of the run
}

// HandlerFor gives what answers a request for the API, and completes x by what
// becomes of it.
func (a API) HandlerFor(r *http.Request, x *proxy.Exchange) proxy.LocalHandler {
	x.Rule = RuleAPI
	if r.URL.Path != apiPath {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			x.Refused, x.Err = true, errPath
			writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]string{
				"type": "not_found_error", "code": stint.CodeResourceNotFound, "message": "Agents reach " + apiPath + " of Stint and nothing else.",
			}})
			return true
		}
	}
	return a.pass
}

// pass lets the API answer. Where it gives up an answer that has begun, the
// client sees that it was cut off.
func (a API) pass(w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		switch cut := recover(); cut {
		case nil:
		case http.ErrAbortHandler:
			whole = false
		default:
			panic(cut)
		}
	}()
	a.Handler.ServeHTTP(w, a.request(r))
	return true
}

// request is what the API is asked: as the run, whatever the sandbox says.
func (a API) request(r *http.Request) *http.Request {
	out := r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, name(stint.APIAlias)))
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

// name is the address at which the API is asked. It is none of this machine,
// whose own name no request bears.
type name string

func (name) Network() string  { return "tcp" }
func (n name) String() string { return string(n) + ":80" }

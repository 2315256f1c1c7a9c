package llmproxy

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// route is the way in which a request is handled.
type route int

const (
	routeNone    route = iota
	routeCall          // forwarded to the provider and counted
	routeForward       // forwarded to the provider
	routeLocal         // answered by this package
)

// calls contains the routes of POST requests by path, for Anthropic (true) and for
// OpenAI (false).
var calls = map[bool]map[string]route{
	true: {"/v1/messages": routeCall, "/v1/messages/count_tokens": routeForward},
	false: {
		"/v1/responses": routeCall, "/v1/responses/compact": routeCall, "/v1/responses/input_tokens": routeForward,
		"/v1/chat/completions": routeCall,
	},
}

// route returns the way in which a request is handled, or an error response.
func (p *Proxy) route(r *http.Request) (route, *errorResponse) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	at := r.URL.EscapedPath()
	way, isCall := calls[p.anthropic][at]
	switch {
	case httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") && (isCall || strings.HasPrefix(at, "/v1/realtime")):
		return routeNone, &errorResponse{status: http.StatusUpgradeRequired, kind: "invalid_request_error", message: "WebSockets to the model are not supported. Send plain requests."}
	case p.anthropic && (at == "/api/hello" || at == "/" && reads):
		return routeLocal, nil
	case isCall && r.Method != http.MethodPost:
		return routeNone, &errorResponse{status: http.StatusMethodNotAllowed, kind: "invalid_request_error", message: at + " supports POST only."}
	case isCall && mayBackground(r) && !isUncompressed(r):
		return routeNone, &errorResponse{status: http.StatusUnsupportedMediaType, kind: "invalid_request_error", message: "Compressed requests to the model are not supported. Send them without compression."}
	case isCall:
		return way, p.checkRequest(r)
	case (at == "/v1/models" || strings.HasPrefix(at, "/v1/models/")) && reads && path.Clean(r.URL.Path) == r.URL.Path:
		return routeForward, p.checkRequest(r)
	}
	return routeNone, &errorResponse{status: http.StatusNotFound, kind: "not_found_error", message: "Only the calls and the model lists of the provider can be reached."}
}

// mayBackground reports whether the path of a request supports responses in the
// background, which would not be counted.
func mayBackground(r *http.Request) bool { return r.URL.EscapedPath() == "/v1/responses" }

func isUncompressed(r *http.Request) bool {
	for _, encoding := range r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return false
		}
	}
	return true
}

// checkRequest returns an error response if a request is too large or the provider's
// key is not a valid header value.
func (p *Proxy) checkRequest(r *http.Request) *errorResponse {
	switch {
	case r.ContentLength > maxBody:
		return tooLarge()
	case !httpguts.ValidHeaderFieldValue(p.c.Key):
		return &errorResponse{status: http.StatusForbidden, kind: "permission_error", rule: "secret value", message: "The provider's key cannot be sent: its value contains a line end or another character that is invalid in headers. Store it again without."}
	}
	return nil
}

// upstreamURL returns the provider's URL for a request. A base URL for Anthropic may end
// in /v1 or not. A base URL for OpenAI includes /v1 or its equivalent.
func (p *Proxy) upstreamURL(r *http.Request) *url.URL {
	u := *p.base
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/v1")
	base := u.EscapedPath()
	if p.anthropic {
		base = strings.TrimSuffix(base, "/v1") + "/v1"
	}
	u.Path, u.RawPath = unescaped(base+rest), base+rest
	u.RawQuery = join(u.RawQuery, r.URL.RawQuery)
	return &u
}

// unescaped returns the decoded form of the path p. p is valid, because it was parsed
// before.
func unescaped(p string) string {
	s, err := url.PathUnescape(p)
	if err != nil {
		return p
	}
	return s
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}

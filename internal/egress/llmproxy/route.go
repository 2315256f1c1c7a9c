package llmproxy

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// way is what becomes of a request.
type way int

const (
	wayNone way = iota
	wayCall     // passed on and counted
	wayPass     // passed on
	wayHere     // answered here
)

// calls are the paths that POST is for, by whether they use the model.
var calls = map[bool]map[string]way{
	true: {"/v1/messages": wayCall, "/v1/messages/count_tokens": wayPass},
	false: {
		"/v1/responses": wayCall, "/v1/responses/compact": wayCall, "/v1/responses/input_tokens": wayPass,
		"/v1/chat/completions": wayCall,
	},
}

// route decides what becomes of a request.
func (m *Proxy) route(r *http.Request) (way, *fault) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	at := r.URL.EscapedPath()
	way, called := calls[m.anthropic][at]
	switch {
	case httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") && (called || strings.HasPrefix(at, "/v1/realtime")):
		return wayNone, &fault{status: http.StatusUpgradeRequired, kind: "invalid_request_error", message: "WebSockets are not passed on to the model. Send plain requests."}
	case m.anthropic && (at == "/api/hello" || at == "/" && reads):
		return wayHere, nil
	case called && r.Method != http.MethodPost:
		return wayNone, &fault{status: http.StatusMethodNotAllowed, kind: "invalid_request_error", message: at + " takes POST alone."}
	case called && mayBackground(r) && !plainBody(r):
		return wayNone, &fault{status: http.StatusUnsupportedMediaType, kind: "invalid_request_error", message: "Requests to the model are sent as they are. Leave their compression out."}
	case called:
		return way, m.sendable(r)
	case (at == "/v1/models" || strings.HasPrefix(at, "/v1/models/")) && reads && path.Clean(r.URL.Path) == r.URL.Path:
		return wayPass, m.sendable(r)
	}
	return wayNone, &fault{status: http.StatusNotFound, kind: "not_found_error", message: "Of the model's provider, only its calls and the lists of its models are reached from here."}
}

// mayBackground tells the calls that can ask for an answer later, of which
// nothing would be counted.
func mayBackground(r *http.Request) bool { return r.URL.EscapedPath() == "/v1/responses" }

func plainBody(r *http.Request) bool {
	for _, encoding := range r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return false
		}
	}
	return true
}

// sendable tells what keeps a request that has its way from going it.
func (m *Proxy) sendable(r *http.Request) *fault {
	switch {
	case r.ContentLength > maxBody:
		return tooLarge()
	case !httpguts.ValidHeaderFieldValue(m.c.Key):
		return &fault{status: http.StatusForbidden, kind: "permission_error", rule: "secret value", message: "The provider's key cannot be sent: its value has a line end or another character that no header may have. Store it again without."}
	}
	return nil
}

// upstreamURL is where a request goes. Anthropic's base URL may end in /v1 or
// not, as it is written both ways; OpenAI's has whatever stands for /v1.
func (m *Proxy) upstreamURL(r *http.Request) *url.URL {
	u := *m.base
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/v1")
	base := u.EscapedPath()
	if m.anthropic {
		base = strings.TrimSuffix(base, "/v1") + "/v1"
	}
	u.Path, u.RawPath = unescaped(base+rest), base+rest
	u.RawQuery = join(u.RawQuery, r.URL.RawQuery)
	return &u
}

// unescaped is a path that was parsed before, or made of such.
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

// dropped are headers that are the sandbox's word about itself.
var dropped = map[string]bool{
	"X-Api-Key": true, "Api-Key": true, "Authorization": true, "Cookie": true, "Forwarded": true, "Via": true, "X-Real-Ip": true,
	"Host": true, "Content-Length": true, "Accept-Encoding": true, "Expect": true,
}

// header is what the provider is sent: the client's words with the key of the
// provider in place of the client's.
func (m *Proxy) header(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if !proxy.IsHopByHop(name, in["Connection"]) && !dropped[name] && !strings.HasPrefix(name, "X-Forwarded-") && !strings.HasPrefix(name, "Proxy-") {
			out[name] = values
		}
	}
	out.Set("Accept-Encoding", "identity") // so that it can be counted, and the key be seen
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // none is added
	}
	switch key := m.c.Key; {
	case key == "":
	case !m.anthropic:
		out.Set("Authorization", "Bearer "+key)
	case strings.HasPrefix(key, "sk-ant-oat"):
		out.Set("Authorization", "Bearer "+key)
		out["Anthropic-Beta"] = withBeta(out["Anthropic-Beta"])
	default:
		out.Set("X-Api-Key", key)
	}
	return out
}

// oauthBeta is what Anthropic wants to be asked for with such a key.
const oauthBeta = "oauth-2025-04-20"

func withBeta(values []string) []string {
	if httpguts.HeaderValuesContainsToken(values, oauthBeta) {
		return values
	}
	return []string{strings.Join(append([]string{oauthBeta}, values...), ",")}
}

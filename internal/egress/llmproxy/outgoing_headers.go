package llmproxy

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// dropped are headers that are not forwarded: credentials, cookies, and
// information about other proxies.
var dropped = map[string]bool{
	"X-Api-Key": true, "Api-Key": true, "Authorization": true, "Cookie": true, "Forwarded": true, "Via": true, "X-Real-Ip": true,
	"Host": true, "Content-Length": true, "Accept-Encoding": true, "Expect": true,
}

// outgoingHeaders returns the headers for the provider: the client's, with the
// provider's key instead of the client's credentials.
func (p *Proxy) outgoingHeaders(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if !proxy.IsHopByHop(name, in["Connection"]) && !dropped[name] && !strings.HasPrefix(name, "X-Forwarded-") && !strings.HasPrefix(name, "Proxy-") {
			out[name] = values
		}
	}
	out.Set("Accept-Encoding", "identity") // usage and key are found in plain text only
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // the transport adds none
	}
	switch key := p.c.Key; {
	case key == "":
	case !p.anthropic:
		out.Set("Authorization", "Bearer "+key)
	case strings.HasPrefix(key, "sk-ant-oat"):
		out.Set("Authorization", "Bearer "+key)
		out["Anthropic-Beta"] = withBeta(out["Anthropic-Beta"])
	default:
		out.Set("X-Api-Key", key)
	}
	return out
}

// oauthBeta is the beta feature that Anthropic requires for OAuth keys.
const oauthBeta = "oauth-2025-04-20"

func withBeta(values []string) []string {
	if httpguts.HeaderValuesContainsToken(values, oauthBeta) {
		return values
	}
	return []string{strings.Join(append([]string{oauthBeta}, values...), ",")}
}

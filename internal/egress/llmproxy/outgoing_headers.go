package llmproxy

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// dropped contains headers that are not forwarded: credentials, cookies, information
// about other proxies, and headers that concern only the client's connection to this
// proxy.
var dropped = map[string]bool{
	"X-Api-Key": true, "Api-Key": true, "Authorization": true, "Cookie": true, "Forwarded": true, "Via": true, "X-Real-Ip": true,
	"Host": true, "Content-Length": true, "Accept-Encoding": true, "Expect": true,
}

// outgoingHeaders returns the headers for the provider: the client's headers with the
// provider's key instead of the client's credentials.
func (p *Proxy) outgoingHeaders(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if !proxy.IsHopByHop(name, in["Connection"]) && !dropped[name] && !strings.HasPrefix(name, "X-Forwarded-") && !strings.HasPrefix(name, "Proxy-") {
			out[name] = values
		}
	}
	out.Set("Accept-Encoding", "identity") // the key can be replaced only in an uncompressed response
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = []string{""} // keeps the transport from adding one
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

// oauthBeta is the beta feature that Anthropic requires in requests with OAuth tokens.
const oauthBeta = "oauth-2025-04-20"

func withBeta(values []string) []string {
	if httpguts.HeaderValuesContainsToken(values, oauthBeta) {
		return values
	}
	return []string{strings.Join(append([]string{oauthBeta}, values...), ",")}
}

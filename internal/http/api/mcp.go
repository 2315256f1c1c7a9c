package api

import (
	"bytes"
	"io"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// tools answers a message of the Model Context Protocol. What a tool does it
// asks of this very handler, with the caller's token.
func (a *api) tools(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	if err := a.origins.Check(r); err != nil {
		return &stint.Error{
			Kind: stint.KindForbidden, Code: stint.CodeOriginNotAllowed, Param: "Origin",
			Message: "Web pages of other origins may not use this address. Call it from a program, or from a page of this server's own address.",
		}
	}
	if accept := r.Header["Accept"]; len(accept) > 0 && (quality(accept, "application", "json") <= 0 || quality(accept, "text", "event-stream") <= 0) {
		return &stint.Error{
			Kind: stint.KindNotAcceptable, Code: stint.CodeNotAcceptable, Param: "Accept",
			Message: "Answers come as 'application/json' or as 'text/event-stream'. Accept both.",
		}
	}
	body, err := readJSON(w, r)
	if err != nil {
		return err
	}
	inner := r.WithContext(r.Context())
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w.Header().Set("X-Accel-Buffering", "no") // proxies pass each notice on at once
	return a.mcp.Serve(w, inner)
}

// trusted are the origins whose pages may use the tools: that of the address
// that was asked, and the server's public one.
func trusted(publicURL string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	if publicURL != "" {
		_ = p.AddTrustedOrigin(publicURL) // one with a path is no origin, and trusts none
	}
	return p
}

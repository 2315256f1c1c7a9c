package api

import (
	"bytes"
	"io"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// serveMCP handles a message of the Model Context Protocol. The tools call this API
// with the caller's token.
func (a *api) serveMCP(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	if err := a.origins.Check(r); err != nil {
		return &stint.Error{
			Kind: stint.KindForbidden, Code: stint.CodeOriginNotAllowed, Param: "Origin",
			Message: "Web pages of other origins cannot use this address. Call it from a program, or from a page of this server.",
		}
	}
	if accept := r.Header["Accept"]; len(accept) > 0 && (quality(accept, "application", "json") <= 0 || quality(accept, "text", "event-stream") <= 0) {
		return &stint.Error{
			Kind: stint.KindNotAcceptable, Code: stint.CodeNotAcceptable, Param: "Accept",
			Message: "Responses are 'application/json' or 'text/event-stream'. Accept both.",
		}
	}
	body, err := readJSON(w, r)
	if err != nil {
		return err
	}
	inner := r.WithContext(r.Context())
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w.Header().Set("X-Accel-Buffering", "no") // makes proxies forward each notification at once
	return a.mcp.Serve(w, inner)
}

// trustedOrigins returns a protection that accepts requests of web pages only if the
// page has the same origin as the request's address or as the public URL.
func trustedOrigins(publicURL string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	if publicURL != "" {
		_ = p.AddTrustedOrigin(publicURL) // fails for a URL with a path, which is not an origin
	}
	return p
}

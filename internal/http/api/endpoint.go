package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// endpoint is the HTTP handler for all methods of a path.
type endpoint struct {
	a       *api
	methods map[string]*route
	allow   string // the Allow header
	public  bool   // no token is required
}

// ServeHTTP calls the handler of the method. The stack frame of ServeHTTP must be
// small, because it stays on the stack while an event stream is open, possibly for
// hours.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handle, c, err := e.admit(w, r)
	if err == nil {
		err = handle(w, r, c)
	}
	if err != nil {
		e.a.fail(w, r, err)
	}
}

// admit returns the handler and the caller of a request. It checks, in this order,
// the token, the method, whether the route accepts the token of a run, and the scope.
func (e *endpoint) admit(w http.ResponseWriter, r *http.Request) (handler, *auth.Caller, error) {
	route := e.methods[r.Method]
	if route == nil && r.Method == http.MethodHead {
		route = e.methods[http.MethodGet]
	}
	c := &auth.Caller{}
	if !e.public {
		var err error
		if *c, err = e.a.authenticate(r, route != nil && route.streamToken); err != nil {
			return nil, nil, err
		}
	}
	if route == nil {
		w.Header().Set("Allow", e.allow)
		return nil, nil, &stint.Error{
			Kind: stint.KindMethodNotAllowed, Code: stint.CodeMethodNotAllowed,
			Message: "This address does not support " + stint.Excerpt(r.Method, 16) + ". It supports " + e.allow + ".",
		}
	}
	if c.RunID != "" && !runTokenRoutes[route.method+" "+route.path] {
		return nil, nil, errRunToken
	}
	if route.scope != "" {
		if err := c.Require(route.scope); err != nil {
			return nil, nil, err
		}
	}
	return route.handle, c, nil
}

// authenticate returns the caller of a request. If streamToken is true and the
// request has no Authorization header, authenticate accepts a stream token in the
// query parameter access_token.
func (a *api) authenticate(r *http.Request, streamToken bool) (auth.Caller, error) {
	given := r.Header["Authorization"]
	if len(given) == 0 && streamToken {
		if token := r.URL.Query().Get("access_token"); token != "" {
			return a.c.Auth.AuthenticateStream(r.Context(), token, r.PathValue("id"))
		}
	}
	if len(given) != 1 {
		return auth.Caller{}, auth.ErrInvalidKey
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return auth.Caller{}, auth.ErrInvalidKey
	}
	return a.c.Auth.Authenticate(r.Context(), token)
}

// allowHeader returns the Allow header for a path with these methods.
func allowHeader(methods map[string]*route) string {
	var names []string
	for m := range methods {
		names = append(names, m)
		if m == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// handler answers a request of a caller. What it returns becomes the body of
// an error answer, so it returns nil once it has written.
type handler func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error

type route struct {
	method, path string
	scope        string // that the caller needs; empty for any good token
	handle       handler
	streamToken  bool // takes ?access_token= too
}

const (
	read  = stint.ScopeRead
	write = stint.ScopeWrite
	admin = stint.ScopeAdmin
)

const (
	routeEvents = "/v1/runs/{id}/events"
	routeMCP    = "/mcp"
)

func (a *api) routes() []route {
	all := []route{
		{"GET", "/v1/me", "", a.ask(a.me), false},
		{"GET", "/v1/usage", read, a.ask(a.usage), false},
		{"GET", "/v1/frameworks", read, a.ask(a.listFrameworks), false},

		{"GET", "/v1/runs", read, a.ask(a.listRuns), false},
		{"POST", "/v1/runs", write, a.post(jsonBody, a.createRun), false},
		{"GET", "/v1/runs/{id}", read, a.getRun, false},
		{"POST", "/v1/runs/{id}/cancel", write, a.post(noBody, a.cancelRun), false},
		{"GET", routeEvents, read, a.events, true},
		{"POST", "/v1/runs/{id}/stream-token", read, a.post(noBody, a.streamToken), false},
		{"GET", "/v1/runs/{id}/logs", read, a.ask(a.logs), false},
		{"GET", "/v1/runs/{id}/metrics", read, a.ask(a.runMetrics), false},

		{"GET", "/v1/sessions", read, a.ask(a.listSessions), false},
		{"GET", "/v1/sessions/{id}", read, a.ask(a.getSession), false},
		{"GET", "/v1/checkpoints/{id}", read, a.ask(a.getCheckpoint), false},

		{"POST", "/v1/chunks", write, a.putChunks, false},
		{"POST", "/v1/chunks/missing", write, a.missingChunks, false},

		{"GET", "/v1/agents", read, a.ask(a.listAgents), false},
		{"POST", "/v1/agents", write, a.post(jsonBody, a.createAgent), false},
		{"GET", "/v1/agents/{id}", read, a.ask(a.getAgent), false},
		{"DELETE", "/v1/agents/{id}", write, a.remove(a.deleteAgent), false},
		{"GET", "/v1/agents/{id}/versions", read, a.ask(a.listAgentVersions), false},
		{"POST", "/v1/agents/{id}/versions", write, a.post(jsonBody, a.addAgentVersion), false},
		{"GET", "/v1/agents/{id}/versions/{v}", read, a.ask(a.getAgentVersion), false},

		// What a token may do with itself is less than admin: auth decides.
		{"GET", "/v1/tokens", admin, a.ask(a.listTokens), false},
		{"POST", "/v1/tokens", admin, a.post(jsonBody, a.createToken), false},
		{"GET", "/v1/tokens/{id}", "", a.ask(a.getToken), false},
		{"DELETE", "/v1/tokens/{id}", "", a.remove(a.revokeToken), false},

		{"GET", "/v1/secrets", admin, a.ask(a.listSecrets), false},
		{"PUT", "/v1/secrets/{name}", admin, a.putSecret, false},
		{"DELETE", "/v1/secrets/{name}", admin, a.remove(a.deleteSecret), false},

		{"POST", routeMCP, read, a.tools, false},
	}
	all = append(all, a.treeRoutes("/v1/artifacts", stint.Artifacts)...)
	return append(all, a.treeRoutes("/v1/volumes", stint.Volumes)...)
}

// forRuns are the routes that the token of a run opens, by method and path:
// what the tools of /mcp ask for.
var forRuns = map[string]bool{
	"POST " + routeMCP: true,

	"GET /v1/runs": true, "POST /v1/runs": true, "GET /v1/runs/{id}": true, "POST /v1/runs/{id}/cancel": true,
	"GET " + routeEvents: true, "GET /v1/runs/{id}/logs": true,

	"GET /v1/agents": true, "GET /v1/agents/{id}": true, "GET /v1/agents/{id}/versions": true, "GET /v1/agents/{id}/versions/{v}": true,

	"GET /v1/artifacts": true, "GET /v1/artifacts/{id}": true, "GET /v1/artifacts/{id}/versions": true, "GET /v1/artifacts/{id}/versions/{v}": true,
	"GET /v1/artifacts/{id}/versions/{v}/files": true, "GET /v1/artifacts/{id}/versions/{v}/files/{path...}": true,

	"GET /v1/volumes": true, "GET /v1/volumes/{id}": true, "GET /v1/volumes/{id}/versions": true, "GET /v1/volumes/{id}/versions/{v}": true,
	"GET /v1/volumes/{id}/versions/{v}/files": true, "GET /v1/volumes/{id}/versions/{v}/files/{path...}": true,
}

var errNotForRuns = &stint.Error{
	Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
	Message: "The token of a run does not open this address. It may start, read and cancel runs, and read agents, artifacts and volumes.",
}

func (a *api) treeRoutes(at string, kind stint.FileSetKind) []route {
	t := treeAPI{a, kind}
	return []route{
		{"GET", at, read, a.ask(t.list), false},
		{"POST", at, write, a.post(jsonBody, t.create), false},
		{"GET", at + "/{id}", read, a.ask(t.get), false},
		{"DELETE", at + "/{id}", write, a.remove(t.remove), false},
		{"GET", at + "/{id}/download", read, t.download, false},
		{"GET", at + "/{id}/diff", read, t.diff, false},
		{"GET", at + "/{id}/versions", read, a.ask(t.versions), false},
		{"POST", at + "/{id}/versions", write, a.post(streamBody, t.pushAny), false},
		{"GET", at + "/{id}/versions/{v}", read, a.ask(t.version), false},
		{"GET", at + "/{id}/versions/{v}/tree", read, t.tree, false},
		{"POST", at + "/{id}/versions/{v}/chunks", read, t.chunks, false},
		{"DELETE", at + "/{id}/versions/{v}", write, a.remove(t.removeVersion), false},
		{"PUT", at + "/{id}/versions/{v}/keep", write, a.remove(t.keepVersion), false},
		{"DELETE", at + "/{id}/versions/{v}/keep", write, a.remove(t.releaseVersion), false},
		{"GET", at + "/{id}/versions/{v}/files", read, a.ask(t.files), false},
		{"GET", at + "/{id}/versions/{v}/files/{path...}", read, t.file, false},
	}
}

// publicRoutes need no token in a header.
func (a *api) publicRoutes() []route {
	return []route{
		{"GET", "/v1/downloads/{link}", "", a.serveDownload, false},
		{"GET", "/healthz", "", a.alive, false},
		{"GET", "/readyz", "", a.ready, false},
		{"GET", "/metrics", "", a.show, false},
	}
}

// ask makes a handler of a function whose result is the JSON of a 200.
func (a *api) ask(f func(r *http.Request, c auth.Caller) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
		v, err := f(r, *c)
		if err != nil {
			return err
		}
		jsonReply(http.StatusOK, v).write(w)
		return nil
	}
}

// remove makes a handler of a function whose success is a 204.
func (a *api) remove(f func(r *http.Request, c auth.Caller) error) handler {
	return func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
		if err := f(r, *c); err != nil {
			return err
		}
		(&reply{status: http.StatusNoContent}).write(w)
		return nil
	}
}

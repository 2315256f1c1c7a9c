package api

import (
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/auth"
)

// handler responds to a request. If it returns an error, it must not have written a
// response; the error is then the response.
type handler func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error

type route struct {
	method, path string
	scope        string // scope that the token must have; empty if any valid token is accepted
	handle       handler
	streamToken  bool // also accepts a stream token in ?access_token=
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
		{"GET", "/v1/me", "", a.get(a.me), false},
		{"GET", "/v1/usage", read, a.get(a.usage), false},
		{"GET", "/v1/frameworks", read, a.get(a.listFrameworks), false},

		{"GET", "/v1/runs", read, a.get(a.listRuns), false},
		{"POST", "/v1/runs", write, a.post(jsonBody, a.createRun), false},
		{"GET", "/v1/runs/{id}", read, a.getRun, false},
		{"PATCH", "/v1/runs/{id}", write, a.patchRun, false},
		{"POST", "/v1/runs/{id}/cancel", write, a.post(noBody, a.cancelRun), false},
		{"GET", routeEvents, read, a.events, true},
		{"POST", "/v1/runs/{id}/stream-token", read, a.post(noBody, a.streamToken), false},
		{"GET", "/v1/runs/{id}/logs", read, a.get(a.logs), false},
		{"GET", "/v1/runs/{id}/metrics", read, a.get(a.runMetrics), false},

		{"GET", "/v1/activity", read, a.get(a.activity), false},

		{"GET", "/v1/sessions", read, a.get(a.listSessions), false},
		{"GET", "/v1/sessions/{id}", read, a.get(a.getSession), false},
		{"GET", "/v1/checkpoints/{id}", read, a.get(a.getCheckpoint), false},

		{"POST", "/v1/chunks", write, a.putChunks, false},
		{"POST", "/v1/chunks/missing", write, a.missingChunks, false},

		{"GET", "/v1/agents", read, a.get(a.listAgents), false},
		{"POST", "/v1/agents", write, a.post(jsonBody, a.createAgent), false},
		{"GET", "/v1/agents/{id}", read, a.get(a.getAgent), false},
		{"DELETE", "/v1/agents/{id}", write, a.noContent(a.deleteAgent), false},
		{"GET", "/v1/agents/{id}/versions", read, a.get(a.listAgentVersions), false},
		{"POST", "/v1/agents/{id}/versions", write, a.post(jsonBody, a.addAgentVersion), false},
		{"GET", "/v1/agents/{id}/versions/{v}", read, a.get(a.getAgentVersion), false},

		// Without the scope admin, a token may read and revoke only itself; package auth checks this.
		{"GET", "/v1/tokens", admin, a.get(a.listTokens), false},
		{"POST", "/v1/tokens", admin, a.post(jsonBody, a.createToken), false},
		{"GET", "/v1/tokens/{id}", "", a.get(a.getToken), false},
		{"DELETE", "/v1/tokens/{id}", "", a.noContent(a.revokeToken), false},

		{"GET", "/v1/secrets", admin, a.get(a.listSecrets), false},
		{"GET", "/v1/secrets/{name}", admin, a.get(a.getSecret), false},
		{"PUT", "/v1/secrets/{name}", admin, a.putSecret, false},
		{"DELETE", "/v1/secrets/{name}", admin, a.noContent(a.deleteSecret), false},

		{"POST", routeMCP, read, a.serveMCP, false},
	}
	all = append(all, a.fileSetRoutes("/v1/artifacts", stint.Artifacts)...)
	return append(all, a.fileSetRoutes("/v1/volumes", stint.Volumes)...)
}

// runTokenRoutes contains the routes that accept the token of a run, by method and
// path: /mcp, and the routes that the tools of /mcp call.
var runTokenRoutes = map[string]bool{
	"POST " + routeMCP: true,

	"GET /v1/runs": true, "POST /v1/runs": true, "GET /v1/runs/{id}": true, "POST /v1/runs/{id}/cancel": true,
	"GET " + routeEvents: true, "GET /v1/runs/{id}/logs": true,

	"GET /v1/agents": true, "GET /v1/agents/{id}": true, "GET /v1/agents/{id}/versions": true, "GET /v1/agents/{id}/versions/{v}": true,

	"GET /v1/artifacts": true, "GET /v1/artifacts/{id}": true, "GET /v1/artifacts/{id}/versions": true, "GET /v1/artifacts/{id}/versions/{v}": true,
	"GET /v1/artifacts/{id}/versions/{v}/files": true, "GET /v1/artifacts/{id}/versions/{v}/files/{path...}": true,

	"GET /v1/volumes": true, "GET /v1/volumes/{id}": true, "GET /v1/volumes/{id}/versions": true, "GET /v1/volumes/{id}/versions/{v}": true,
	"GET /v1/volumes/{id}/versions/{v}/files": true, "GET /v1/volumes/{id}/versions/{v}/files/{path...}": true,
}

var errRunToken = &stint.Error{
	Kind: stint.KindForbidden, Code: stint.CodeInsufficientScope,
	Message: "The token of a run cannot be used for this address. It can start, read, and cancel runs, and read agents, artifacts, and volumes.",
}

func (a *api) fileSetRoutes(path string, kind stint.FileSetKind) []route {
	s := fileSetAPI{a, kind}
	return []route{
		{"GET", path, read, a.get(s.list), false},
		{"POST", path, write, a.post(jsonBody, s.create), false},
		{"GET", path + "/{id}", read, a.get(s.get), false},
		{"DELETE", path + "/{id}", write, a.noContent(s.remove), false},
		{"GET", path + "/{id}/download", read, s.download, false},
		{"GET", path + "/{id}/diff", read, s.diff, false},
		{"GET", path + "/{id}/versions", read, a.get(s.versions), false},
		{"POST", path + "/{id}/versions", write, a.post(streamBody, s.push), false},
		{"GET", path + "/{id}/versions/{v}", read, a.get(s.version), false},
		{"GET", path + "/{id}/versions/{v}/tree", read, s.tree, false},
		{"POST", path + "/{id}/versions/{v}/chunks", read, s.chunks, false},
		{"DELETE", path + "/{id}/versions/{v}", write, a.noContent(s.removeVersion), false},
		{"POST", path + "/{id}/versions/{v}/promote", write, a.post(noBody, s.promote), false},
		{"PUT", path + "/{id}/versions/{v}/keep", write, a.noContent(s.keepVersion), false},
		{"DELETE", path + "/{id}/versions/{v}/keep", write, a.noContent(s.releaseVersion), false},
		{"GET", path + "/{id}/versions/{v}/files", read, a.get(s.files), false},
		{"GET", path + "/{id}/versions/{v}/files/{path...}", read, s.file, false},
	}
}

// publicRoutes returns the routes that do not require a token.
func (a *api) publicRoutes() []route {
	return []route{
		{"GET", "/v1/downloads/{link}", "", a.serveDownload, false},
		{"GET", "/{$}", "", a.home, false},
		{"GET", "/v1/openapi.json", "", a.openAPI, false},
		{"GET", "/healthz", "", a.healthz, false},
		{"GET", "/readyz", "", a.readyz, false},
		{"GET", "/metrics", "", a.serveMetrics, false},
	}
}

// get returns a handler that responds with the result of f as JSON.
func (a *api) get(f func(r *http.Request, c auth.Caller) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
		v, err := f(r, *c)
		if err != nil {
			return err
		}
		jsonResponse(http.StatusOK, v).write(w)
		return nil
	}
}

// noContent returns a handler that responds with 204 if f succeeds.
func (a *api) noContent(f func(r *http.Request, c auth.Caller) error) handler {
	return func(w http.ResponseWriter, r *http.Request, c *auth.Caller) error {
		if err := f(r, *c); err != nil {
			return err
		}
		(&response{status: http.StatusNoContent}).write(w)
		return nil
	}
}

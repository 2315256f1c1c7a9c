package contract_test

import (
	"maps"
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/api"
)

var headerCases = []testCase{
	{"headers of every response", commonHeaders},
	{"request identifiers are kept", requestIDs},
	{"unknown paths", unknownPaths},
	{"methods that a path does not have", wrongMethods},
	{"health and metrics", health},
}

var requestID = regexp.MustCompile(`^req_[0-9a-f]{32}$`)

// responses maps each HTTP status of the API to a request. The response to the request
// has this status.
func (w *tenant) responses() map[int]request {
	w.Helper()
	r := w.run(object{})
	v := w.volume("data", object{"a": "1"})
	at := "/v1/volumes/" + v.VolumeID
	link := w.link(at + "/download")
	return map[int]request{
		200: {method: "GET", path: "/v1/runs/" + r.ID + "/events", header: map[string]string{"Accept": "text/event-stream"}},
		201: {method: "POST", path: "/v1/artifacts", body: object{"name": "x"}},
		202: {method: "POST", path: "/v1/runs", body: w.newRun(nil)},
		204: {method: "DELETE", path: "/v1/volumes/" + w.newTree("volumes", "gone").ID},
		206: {method: "GET", path: link, token: "-", header: map[string]string{"Range": "bytes=0-1"}},
		302: {method: "GET", path: at + "/download"},
		304: {method: "GET", path: link, token: "-", header: map[string]string{"If-None-Match": "*"}},
		400: {method: "GET", path: "/v1/runs?limit=0"},
		401: {method: "GET", path: "/v1/runs", token: "-"},
		403: {method: "GET", path: link + "x", token: "-"},
		404: {method: "GET", path: "/no/such/path", token: "-"},
		405: {method: "PATCH", path: "/v1/runs"},
		406: {method: "GET", path: "/v1/runs/" + r.ID + "/events", header: map[string]string{"Accept": "text/html"}},
		409: {method: "POST", path: "/v1/volumes", body: object{"name": "data"}},
		413: {method: "POST", path: "/v1/volumes", body: `{"name":"` + strings.Repeat("x", 1<<20) + `"}`},
		415: {method: "POST", path: "/v1/volumes", body: "x", header: map[string]string{"Content-Type": "text/plain"}},
		416: {method: "GET", path: link, token: "-", header: map[string]string{"Range": "bytes=99999999-"}},
	}
}

func commonHeaders(w *tenant) {
	for status, r := range w.responses() {
		r.undocumented = true
		a := w.do(r)
		if a.StatusCode != status {
			w.Errorf("%s %s returned %d, want %d", r.method, r.path, a.StatusCode, status)
		}
		if id := a.Header.Values("X-Request-Id"); len(id) != 1 || !requestID.MatchString(id[0]) {
			w.Errorf("a %d has the X-Request-Id %q", status, id)
		}
		w.equal("X-API-Version", "v1", a.Header.Get("X-Api-Version"))
		w.equal("X-Content-Type-Options", "nosniff", a.Header.Get("X-Content-Type-Options"))
		if status >= 400 {
			if f := a.apiError(); f.Type == "" || f.Code == "" || f.Message == "" || a.Header.Get("Content-Type") != "application/json" {
				w.Errorf("a %d is %s", status, a.body)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/nothing", "/v1/runs/x"} {
		a := w.do(request{method: "GET", path: path, undocumented: true})
		if !requestID.MatchString(a.Header.Get("X-Request-Id")) {
			w.Errorf("%s has the X-Request-Id %q", path, a.Header.Get("X-Request-Id"))
		}
	}
}

func requestIDs(w *tenant) {
	own := "req_0123456789abcdef0123456789abcdef"
	for status, r := range w.responses() {
		r.undocumented = true
		header := map[string]string{"X-Request-Id": own}
		maps.Copy(header, r.header)
		r.header = header
		w.equal("an own one", own, w.do(r).Header.Get("X-Request-Id"))
		for _, bad := range []string{"req_", own + "0", strings.ToUpper(own), "x", own[4:], "req_0123456789abcdef0123456789abcdeg"} {
			if status == 202 || status == 201 || status == 204 {
				continue
			}
			r.header["X-Request-Id"] = bad
			if got := w.do(r).Header.Get("X-Request-Id"); got == bad || !requestID.MatchString(got) {
				w.Errorf("%q became %q", bad, got)
			}
		}
	}
	seen := map[string]bool{}
	for range 20 {
		seen[w.do(request{method: "GET", path: "/v1/runs"}).Header.Get("X-Request-Id")] = true
	}
	w.equal("different ones", 20, len(seen))
}

func unknownPaths(w *tenant) {
	r := w.run(object{})
	for _, path := range []string{
		"/v1", "/v1/", "/v2/runs", "/runs", "/v1/run", "/v1/runs/", "/v1/Runs", "//v1/runs", "/v1//runs", "/v1/./runs", "/v1/runs/../agents", "/v1/runs/%2e%2e/agents",
		"/v1/runs/" + r.ID + "/", "/v1/runs/" + r.ID + "/nothing", "/v1/runs/" + r.ID + "/logs/1", "/v1/artifacts/x/y/z", "/v1/%00", "/.git/config", "/v1/runs%2F" + r.ID,
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "PATCH"} {
			w.wantError(request{method: method, path: path, body: map[string]any{"POST": object{}}[method]}, 404, notFound)
		}
	}
}

// wrongMethods sends requests to all paths of the contract, with the methods that the
// contract does not define for the path.
func wrongMethods(w *tenant) {
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	check(w, err)
	for path, item := range doc.Paths.Map() {
		at := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "x")
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"} {
			if item.GetOperation(method) != nil && method != "NONSENSE" {
				continue
			}
			a := w.do(request{method: method, path: at, undocumented: true})
			if f := a.apiError(); a.StatusCode != 405 || f.Type+" "+f.Code != "invalid_request_error method_not_allowed" {
				w.Errorf("%s %s returned %d %s", method, at, a.StatusCode, a.body)
				continue
			}
			allow := a.Header.Get("Allow")
			for known := range item.Operations() {
				if !strings.Contains(allow, known) {
					w.Errorf("%s: Allow is %q", at, allow)
				}
			}
		}
	}
}

func health(w *tenant) {
	w.run(object{})
	for _, path := range []string{"/healthz", "/readyz"} {
		a := w.do(request{method: "GET", path: path, token: "-"})
		w.equal(path, []any{200, `{"status":"ok"}`}, []any{a.StatusCode, strings.TrimSpace(string(a.body))})
	}
	a := w.do(request{method: "GET", path: "/metrics", token: "-"})
	if a.StatusCode != 200 || !strings.Contains(string(a.body), "# TYPE ") || !strings.Contains(string(a.body), "stint_") {
		w.Errorf("/metrics returned %d, %.300s", a.StatusCode, a.body)
	}
	for _, hidden := range []string{w.org, w.token, w.shell.ID, string(stint.PrefixRun) + "0"} {
		if strings.Contains(string(a.body), hidden) {
			w.Errorf("/metrics shows %s", hidden)
		}
	}
}

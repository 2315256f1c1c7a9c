package contract_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/stint-dev/stint"
)

var idempotencyCases = []testCase{
	{"an idempotency key repeats the response", replays},
	{"a key of another request", reusedKey},
	{"a key that is in use", keyInUseNow},
	{"several requests with one key create one run", concurrentKeys},
	{"invalid idempotency keys", wrongKeys},
	{"Prefer: wait", preferWait},
}

func keyed(key string) map[string]string { return map[string]string{"Idempotency-Key": key} }

func replays(w *tenant) {
	volume := w.newTree("volumes", "data")
	running := w.startRun(object{"prompt": "sleep 600"})
	for i, r := range []request{
		{path: "/v1/runs", body: w.newRun(object{"secrets": object{"S": "hushhush"}})},
		{path: "/v1/runs", body: w.newRun(object{"agent": "nobody"}), undocumented: true},
		{path: "/v1/runs", body: object{}, undocumented: true},
		{path: "/v1/agents", body: definition("repeated", nil)},
		{path: "/v1/agents/" + w.shell.ID + "/versions", body: definition("", object{"description": "new"})},
		{path: "/v1/volumes", body: object{"name": "repeated"}},
		{path: "/v1/artifacts", body: object{"name": "repeated"}},
		{path: "/v1/volumes/" + volume.ID + "/versions", body: pack(w, entry{Name: "a"})},
		{path: "/v1/tokens", body: object{"name": "repeated"}},
		{path: "/v1/runs/" + running.ID + "/stream-token"},
		{path: "/v1/runs/" + running.ID + "/cancel"},
	} {
		r.method, r.header = "POST", keyed(fmt.Sprint("key-", i))
		first, again := w.do(r), w.do(r)
		if first.StatusCode >= 500 || first.StatusCode >= 400 && !r.undocumented {
			w.Errorf("%s returned %d %s", r.path, first.StatusCode, first.body)
		}
		w.equal(r.path+": response", []any{first.StatusCode, string(first.body), first.Header.Get("Location")}, []any{again.StatusCode, string(again.body), again.Header.Get("Location")})
		w.equal(r.path+": marks", []string{"", "true"}, []string{first.Header.Get("Idempotency-Replayed"), again.Header.Get("Idempotency-Replayed")})
	}
	w.equal("runs", 2, len(list[object](w, "/v1/runs", nil)))
	w.wantError(request{method: "POST", path: "/v1/runs/" + running.ID + "/cancel", header: keyed("another")}, 400, badState)
	other := w.other() // another organisation can use the same keys
	var r stint.Run
	other.must(202, request{method: "POST", path: "/v1/runs", body: other.newRun(nil), header: keyed("key-0")}, &r)
	w.equal("another organisation's agent", other.shell.ID, r.AgentID)
}

func reusedKey(w *tenant) {
	w.must(202, request{method: "POST", path: "/v1/runs", body: w.newRun(object{"prompt": "echo 1"}), header: keyed("k")}, nil)
	w.wantError(request{method: "POST", path: "/v1/runs", body: w.newRun(object{"prompt": "echo 2"}), header: keyed("k")}, 409, keyReused)
	w.equal("runs", 1, len(list[object](w, "/v1/runs", nil)))
	var v stint.FileSet
	w.must(201, request{method: "POST", path: "/v1/volumes", body: object{"name": "a"}, header: keyed("t")}, &v)
	w.wantError(request{method: "POST", path: "/v1/volumes", body: object{"name": "b"}, header: keyed("t")}, 409, keyReused)
	push := func(text string) request {
		return request{method: "POST", path: "/v1/volumes/" + v.ID + "/versions", body: pack(w, entry{Name: "a", Text: text}), header: keyed("p")}
	}
	w.must(201, push("one"), nil)
	w.wantError(push("two"), 409, keyReused) // a body of the same length
	w.wantError(push("longer"), 409, keyReused)
	w.must(201, push("one"), nil)
	w.equal("versions", 1, len(list[object](w, "/v1/volumes/"+v.ID+"/versions", nil)))
	w.must(202, request{method: "POST", path: "/v1/runs", body: w.newRun(nil)}, nil)
	w.must(202, request{method: "POST", path: "/v1/runs", body: w.newRun(nil)}, nil)
	w.equal("runs", 3, len(list[object](w, "/v1/runs", nil)))
}

func keyInUseNow(w *tenant) {
	t := w.newTree("volumes", "data")
	raw := pack(w, entry{Name: "a", Text: strings.Repeat("x", 100_000)})
	at := "/v1/volumes/" + t.ID + "/versions"
	push := startPush(w, at, raw)
	var a response
	w.waitUntil("the key in use", func() bool {
		select {
		case code := <-push.status: // the request below used the key when the push began
			w.equal("an overtaken push", http.StatusConflict, code)
			push = startPush(w, at, raw)
		default:
		}
		a = w.do(request{method: "POST", path: at, body: io.MultiReader(strings.NewReader("x")), header: keyed("k"), undocumented: true})
		return a.apiError().Code == "idempotency_key_in_use"
	})
	w.equal("status", http.StatusConflict, a.StatusCode)
	_, err := push.out.Write(raw[2000:])
	check(w, err)
	check(w, push.out.Close())
	w.equal("the first", http.StatusCreated, <-push.status)
}

// slowPush is an upload in progress that has sent only the beginning of its body.
type slowPush struct {
	out    *io.PipeWriter
	status chan int // status of the response; 0 means that the request failed
}

func startPush(w *tenant, at string, raw []byte) *slowPush {
	in, out := io.Pipe()
	p := &slowPush{out: out, status: make(chan int, 1)}
	w.Cleanup(func() { _ = out.CloseWithError(io.ErrUnexpectedEOF) })
	go func() {
		defer in.Close() // makes writes to out fail after an early response
		req := w.build(w.Context(), request{method: "POST", path: at, body: io.Reader(in), header: keyed("k")})
		req.Header.Set("Expect", "100-continue") // the server requests the body as soon as this request holds the key
		res, err := w.client.Do(req)
		if err != nil {
			p.status <- 0
			return
		}
		res.Body.Close()
		p.status <- res.StatusCode
	}()
	_, _ = out.Write(raw[:2000]) // fails if the response arrives early
	return p
}

func concurrentKeys(w *tenant) {
	const n = 12
	responses := make([]response, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			responses[i] = w.do(request{method: "POST", path: "/v1/runs", body: w.newRun(nil), header: keyed("one")})
		})
	}
	wg.Wait()
	bodies := map[string]bool{}
	for _, a := range responses {
		if a.StatusCode == 202 {
			bodies[string(a.body)] = true
		} else if f := a.apiError(); a.StatusCode != 409 || f.Type+" "+f.Code != keyInUse {
			w.Errorf("a request returned %d %s", a.StatusCode, a.body)
		}
	}
	w.equal("different responses", 1, len(bodies))
	w.equal("runs", 1, len(list[object](w, "/v1/runs", nil)))
}

func wrongKeys(w *tenant) {
	for _, bad := range []string{" ", "a b", strings.Repeat("x", 256), "ü"} {
		w.wantError(request{method: "POST", path: "/v1/runs", body: w.newRun(nil), header: keyed(bad)}, 400, invalid, "Idempotency-Key")
	}
	w.must(202, request{method: "POST", path: "/v1/runs", body: w.newRun(nil), header: keyed(strings.Repeat("~", 255))}, nil)
}

func preferWait(w *tenant) {
	a := w.do(request{method: "POST", path: "/v1/runs", body: w.newRun(object{"prompt": "echo x > x", "artifactName": "out"}), header: map[string]string{"Prefer": "wait=60"}})
	var r stint.Run
	decode(w, a.body, &r)
	w.equal("response with Prefer: wait", []any{202, stint.Completed, true}, []any{a.StatusCode, r.Status, r.ArtifactVersion != nil})
	w.equal("Preference-Applied", "wait", a.Header.Get("Preference-Applied"))
	a = w.do(request{method: "POST", path: "/v1/runs", body: w.newRun(object{"prompt": "sleep 600"}), header: map[string]string{"Prefer": "respond-async, wait=1"}})
	decode(w, a.body, &r)
	if a.StatusCode != 202 || r.Status.Final() {
		w.Errorf("a long run returned %d %s", a.StatusCode, a.body)
	}
	w.cancel(r.ID)
	header := keyed("k")
	header["Prefer"] = "wait=60"
	send := request{method: "POST", path: "/v1/runs", body: w.newRun(nil), header: header}
	first, again := w.do(send), w.do(send)
	w.equal("a replay", string(first.body), string(again.body))
}

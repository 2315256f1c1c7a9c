package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestAPIAlias(t *testing.T) {
	t.Parallel()
	type asked struct{ Method, Host, URI, Auth, Cookie, Key, Local, Body string }
	seen := make(chan asked, 1)
	api := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		body, _ := io.ReadAll(r.Body)
		seen <- asked{r.Method, r.Host, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Api-Key"), local.String(), string(body)}
		if r.URL.RawQuery == "cut" {
			_, _ = io.WriteString(rw, "part")
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(rw, "answer")
	})
	for _, mode := range []policy.Mode{policy.Public, policy.Restricted, policy.None} {
		b := newTestInternet().open(t, options{mode: mode, config: func(c *egress.Config) { c.API = api }, run: func(r *egress.RunConfig) { r.APIToken = "the-run" }})
		status, body, _ := b.post("http://api.stint.internal/mcp?a=b", "question", "Authorization", "Bearer other", "Cookie", "c=d", "X-Api-Key", "k")
		if status != 202 || body != "answer" {
			t.Errorf("%d %s", status, body)
		}
		want := asked{"POST", "api.stint.internal", "/mcp?a=b", "Bearer the-run", "", "", "api.stint.internal:80", "question"}
		if diff := cmp.Diff(want, <-seen); diff != "" {
			t.Error(diff)
		}
		e := b.await("of the request", func(e log.Entry) bool { return e.Rule == "api" && e.Method == "POST" && !e.Open })
		if e.URL != "http://api.stint.internal/mcp?a=b" || e.Status != 202 || e.RequestBytes != 8 || e.ResponseBytes != 6 || e.Action != log.Allow {
			t.Errorf("%+v", e)
		}
		for _, path := range []string{"/", "/v1/runs", "/mcp/", "/mcp/../v1/runs", "/mcp%2f..%2fv1"} {
			if status, body, _ := b.post("http://api.stint.internal"+path, ""); status != 404 || !strings.Contains(body, "resource_not_found") {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if _, err := b.lookup("model.stint.internal"); err == nil {
			t.Error("the model's name resolves, though there is none")
		}
		_, _, err := b.get("http://api.stint.internal/mcp?cut")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("an aborted response ends with %v", err)
		}
		<-seen
	}
}

func TestAPIAliasStreamsBothDirections(t *testing.T) {
	t.Parallel()
	api := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		_ = control.EnableFullDuplex()
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				return
			}
			_, _ = rw.Write(b)
			if err := control.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	b := newTestInternet().open(t, options{mode: policy.None, config: func(c *egress.Config) { c.API = api }, run: func(r *egress.RunConfig) { r.APIToken = "the-run" }})
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.stint.internal/mcp", r)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = w.Write([]byte("a")) }()
	res, err := b.transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got := make([]byte, 1)
	for _, want := range []string{"a", "b", "c"} {
		if want != "a" {
			_, _ = w.Write([]byte(want))
		}
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	w.Close()
	readAll(t, res.Body)
}

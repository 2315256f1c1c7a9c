package proxy_test

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

const (
	placeholder  = "stint-placeholder-0123456789"
	value        = `sk-live/ä"+&= real?` + "\tvalue"
	plain        = "sk-live-0123456789abcdef"
	placeholder2 = "stint-placeholder-0123456789-second"
	value2       = "other-value-of-another"
)

func odd(hosts ...string) policy.Secret {
	return policy.Secret{Name: "ODD", Placeholder: placeholder, Value: value, Hosts: hosts}
}

func token(hosts ...string) policy.Secret {
	return policy.Secret{Name: "TOKEN", Placeholder: placeholder, Value: plain, Hosts: hosts}
}

// seen is a request that a server received.
type seen struct {
	Header http.Header
	Query  string
	Path   string
	Body   string
}

// capture returns a handler that sends each request to got and an empty response.
func capture(got chan<- seen) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{Header: r.Header, Query: r.URL.RawQuery, Path: r.URL.Path, Body: string(b)}
	}
}

func TestSecretsAreInsertedForTheirHosts(t *testing.T) {
	t.Parallel()
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct {
		scheme, host string
		secrets      []policy.Secret
		put          bool
	}{
		"its host":               {"https", "api.test", []policy.Secret{odd("api.test")}, true},
		"its host and port":      {"https", "api.test", []policy.Secret{odd("x.test", "API.test:443")}, true},
		"another port":           {"https", "api.test", []policy.Secret{odd("api.test:8443")}, false},
		"another host":           {"https", "api.test", []policy.Secret{odd("other.test")}, false},
		"its host in cleartext":  {"http", "api.test", []policy.Secret{odd("api.test")}, false},
		"the worker":             {"http", stint.HostAlias, []policy.Secret{odd(stint.HostAlias)}, true},
		"the worker, not named":  {"http", stint.HostAlias, []policy.Secret{odd("api.test")}, false},
		"a second one beside it": {"https", "api.test", []policy.Secret{odd("api.test"), {Name: "B", Placeholder: placeholder2, Value: value2, Hosts: []string{"api.test"}}}, true},
	} {
		for _, h2 := range []bool{false, true} {
			if h2 && c.scheme == "http" {
				continue
			}
			t.Run(fmt.Sprint(name, " h2 ", h2), func(t *testing.T) {
				t.Parallel()
				got := make(chan seen, 1)
				w := newTestProxy(t, c.scheme, capture(got), secrets(c.secrets...), handler(func(h *proxy.Handler) { h.Host = "api.test" }))
				base := c.scheme + "://" + c.host
				r := request(t, "POST", base+"/"+placeholder+"?key="+placeholder+"&enc="+encodeAll(placeholder)+"&n=1", strings.NewReader(placeholder))
				r.Header = http.Header{
					"Authorization": {"Bearer " + placeholder}, "X-Api-Key": {placeholder, "x" + placeholder + "y" + placeholder},
					"Cookie": {"a=" + placeholder}, "Accept-Encoding": {"gzip"}, "User-Agent": {"agent"}, "X-Second": {placeholder2},
				}
				do(t, w.client(h2), r)
				first, second, encoding := value, value2, "identity"
				if !c.put {
					first, encoding = placeholder, "gzip"
				}
				if len(c.secrets) == 1 {
					second = first + "-second"
				}
				g := <-got
				want := http.Header{
					"Authorization": {"Bearer " + first}, "X-Api-Key": {first, "x" + first + "y" + first},
					"Cookie": {"a=" + first}, "Accept-Encoding": {encoding}, "User-Agent": {"agent"}, "X-Second": {second}, "Content-Length": {fmt.Sprint(len(placeholder))},
				}
				if diff := cmp.Diff(want, g.Header); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
				q, err := url.ParseQuery(g.Query)
				if err != nil || q.Get("key") != first || q.Get("enc") != first || q.Get("n") != "1" {
					t.Errorf("query %q: %v", g.Query, err)
				}
				if g.Path != "/"+placeholder || g.Body != placeholder {
					t.Errorf("path %q, body %q", g.Path, g.Body)
				}
				if e := w.next(); e.URL != base+"/"+placeholder+"?key="+placeholder+"&enc="+encodeAll(placeholder)+"&n=1" || e.Err != nil {
					t.Errorf("recorded %+v", e)
				}
				r = request(t, "GET", base+"/", nil)
				r.Header.Set("Authorization", basic("user:"+placeholder))
				do(t, w.client(h2), r)
				if diff := cmp.Diff(basic("user:"+first), (<-got).Header.Get("Authorization")); diff != "" {
					t.Errorf("basic (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestSecretsFollowURLPort(t *testing.T) {
	t.Parallel()
	got := make(chan seen, 1)
	w := newTestProxy(t, "http", capture(got), secrets(token(stint.HostAlias+":8080")), handler(func(h *proxy.Handler) { h.Proxy, h.Host = true, "" }))
	c := w.conn()
	for port, want := range map[string]string{":8080": plain, ":8081": placeholder, "": placeholder} {
		fmt.Fprintf(c, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\nX-Key: %[2]s\r\n\r\n", stint.HostAlias+port, placeholder)
		if diff := cmp.Diff(want, (<-got).Header.Get("X-Key")); diff != "" {
			t.Errorf("port %q (-want +got):\n%s", port, diff)
		}
	}
}

func encodeAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func TestRequestWithoutPlaceholderIsUnchanged(t *testing.T) {
	t.Parallel()
	got := make(chan seen, 1)
	w := newTestProxy(t, "https", capture(got), secrets(token("api.test"), policy.Secret{Name: "EMPTY", Value: "x", Hosts: []string{"api.test"}}))
	r := request(t, "GET", w.base()+"/?a=%20b", nil)
	r.Header = http.Header{"Authorization": {"Basic ???"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"a"}}
	do(t, w.client(false), r)
	g := <-got
	if diff := cmp.Diff(r.Header, g.Header); diff != "" || g.Query != "a=%20b" {
		t.Errorf("query %q, headers (-want +got):\n%s", g.Query, diff)
	}
}

func TestInvalidSecretValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a\r\nX-Injected: 1", "a\nb", "a\rb", "a\x00b", "a\x7fb"} {
		w := newTestProxy(t, "https", func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("a request was forwarded: %v %s", r.Header, r.URL)
		},
			secrets(policy.Secret{Name: "BAD", Placeholder: placeholder, Value: bad, Hosts: []string{"api.test"}}))
		for name, edit := range map[string]func(*http.Request){
			"header": func(r *http.Request) { r.Header.Set("X-Key", placeholder) },
			"basic":  func(r *http.Request) { r.SetBasicAuth("u", placeholder) },
			"query":  func(r *http.Request) { r.URL.RawQuery = placeholder },
		} {
			r := request(t, "GET", w.base(), nil)
			edit(r)
			res, body := do(t, w.client(true), r)
			e := w.next()
			if res.StatusCode != 400 || !strings.Contains(body, "The secret BAD cannot be sent") || !e.Refused || e.Rule != "secret value" || strings.Contains(body+e.URL+e.Err.Error(), bad) {
				t.Errorf("%q in %s: %d %q, %+v", bad, name, res.StatusCode, body, e)
			}
		}
	}
}

// echoing is a handler that returns the request header X-Key. The path selects the part of
// the response that contains its value.
func echoing(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("X-Key")
	switch r.URL.Path {
	case "/redirect":
		w.Header().Set("X-Echo", key)
		http.Redirect(w, r, "https://elsewhere.test/?key="+url.QueryEscape(key), http.StatusFound)
	case "/split":
		text := strings.Repeat("x", 100) + key + "-" + key
		for i := range len(text) {
			_, _ = io.WriteString(w, text[i:i+1])
			_ = http.NewResponseController(w).Flush()
		}
	case "/json":
		_ = json.NewEncoder(w).Encode(map[string]any{"key": key, "auth": "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+key)), "url": "/?k=" + url.QueryEscape(key)})
	case "/trailer":
		w.Header().Set("Trailer", "X-Echo")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Echo", key)
	case "/hint":
		w.Header().Set("Link", key)
		w.WriteHeader(103)
	case "/zipped":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, key)
		z.Close()
	case "/known":
		w.Header().Set("Content-Length", fmt.Sprint(len(key)))
		_, _ = io.WriteString(w, key)
	}
}

func TestResponsesAreRedacted(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		for _, s := range []policy.Secret{token("api.test"), odd("api.test")} {
			w := newTestProxy(t, "https", echoing, secrets(s))
			get := func(path string) (*http.Response, string) {
				r := request(t, "GET", w.base()+path, nil)
				r.Header.Set("X-Key", placeholder)
				var hints []string
				ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
					hints = append(hints, h["Link"]...)
					return nil
				}})
				res, body := do(t, w.client(h2), r.WithContext(ctx))
				if want := map[bool][]string{true: {placeholder}}[path == "/hint"]; !slices.Equal(hints, want) {
					t.Errorf("%s: hints %q, want %q", path, hints, want)
				}
				all := body + fmt.Sprint(res.Header, res.Trailer)
				for _, form := range []string{s.Value, url.QueryEscape(s.Value), base64.StdEncoding.EncodeToString([]byte("user:" + s.Value))[8:26]} {
					if path != "/zipped" && strings.Contains(all, form) {
						t.Errorf("%s contains the value: %s", path, all)
					}
				}
				if e := w.next(); e.Err != nil {
					t.Errorf("%s: %v", path, e.Err)
				}
				return res, body
			}
			if res, body := get("/redirect"); res.Header.Get("X-Echo") != placeholder || res.Header.Get("Location") != "https://elsewhere.test/?key="+placeholder || !strings.Contains(body, placeholder) {
				t.Errorf("redirect: %v %q", res.Header, body)
			}
			if _, body := get("/split"); body != strings.Repeat("x", 100)+placeholder+"-"+placeholder {
				t.Errorf("split: %q", body)
			}
			if _, body := get("/json"); !strings.Contains(body, `"key":"`+placeholder+`"`) || !strings.Contains(body, `"/?k=`+placeholder+`"`) {
				t.Errorf("JSON: %q", body)
			}
			if res, body := get("/trailer"); res.Trailer.Get("X-Echo") != placeholder || body != "body" {
				t.Errorf("trailer: %v %q", res.Trailer, body)
			}
			if res, body := get("/known"); body != placeholder || res.ContentLength >= 0 {
				t.Errorf("known length: %d %q", res.ContentLength, body)
			}
			get("/hint")
			z, body := get("/zipped")
			if in, err := gzip.NewReader(strings.NewReader(body)); err != nil || z.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("zipped: %v", err)
			} else if text, err := io.ReadAll(in); err != nil || string(text) != s.Value {
				t.Errorf("a compressed body was changed: %q, %v", text, err)
			}
		}
	}
}

func TestErrorsAreRedacted(t *testing.T) {
	t.Parallel()
	w := newTestProxy(t, "https", func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", r.Header.Get("X-Key"))
		c.Close()
	}, http1Only, secrets(token("api.test")))
	r := request(t, "GET", w.base(), nil)
	r.Header.Set("X-Key", placeholder)
	res, body := do(t, w.client(false), r)
	e := w.next()
	if res.StatusCode != 502 || e.Err == nil || strings.Contains(body+e.Err.Error(), plain) || !strings.Contains(body, placeholder) {
		t.Errorf("got %d %q, %v", res.StatusCode, body, e.Err)
	}
}

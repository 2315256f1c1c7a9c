package apitest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/testkit/apitest"
)

func TestDecodeRefusesAmbiguousJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"", "{", "[1,]", `{"a":1,"a":1}`, `{"b":{"a":1,"a":2}}`, `{"a":1}{}`, `{"a":1} x`, "nul", `{"a"}`, "{1:1}", strings.Repeat("[", 5000),
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		if v, err := apitest.Decode([]byte(raw)); err == nil {
			t.Errorf("%.40q gave %v", raw, v)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e3,null,true,"x"],"b":{}}`, `[]`, ` "\ud800" `, `{"a":1,"a":2}`, `1 2`, "[[[[", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := apitest.Decode(raw)
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-encoding/json +got):\n%s", raw, diff)
		}
	})
}

// BenchmarkStream measures the check of one event of a stream.
func BenchmarkStream(b *testing.B) {
	var stream strings.Builder
	stream.WriteString("event: status\ndata: {\"status\":\"pending\"}\nid: 1\n\n")
	for i := range b.N {
		_, _ = io.WriteString(&stream, "event: output\ndata: {\"content\":\"line\\n\",\"stream\":\"stdout\"}\nid: "+strconv.Itoa(i+2)+"\n\n")
	}
	req, _ := http.NewRequestWithContext(b.Context(), "GET", "http://server"+run+"/events", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	resp := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(stream.String())), Header: http.Header{
		"X-Request-Id": {"req_" + strings.Repeat("5", 32)}, "X-Api-Version": {"v1"}, "Content-Type": {"text/event-stream"},
	}}
	apitest.Check(b, req, resp)
	b.ResetTimer()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPage measures the check of a response that is a page with one run.
func BenchmarkPage(b *testing.B) {
	body := apitest.Example(b, "RunPage")
	req, _ := http.NewRequestWithContext(b.Context(), "GET", "http://server/v1/runs?limit=20", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	for b.Loop() {
		resp := &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{
			"X-Request-Id": {"req_" + strings.Repeat("5", 32)}, "X-Api-Version": {"v1"}, "Content-Type": {"application/json"},
		}}
		apitest.Check(b, req, resp)
	}
}

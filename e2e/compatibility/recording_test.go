package compatibility_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// recording contains the tokens of a fixture and the exchanges that testdata/record.sh
// recorded.
type recording struct {
	Tokens    struct{ Valid, Expired, Revoked string }
	Exchanges []exchange
}

// exchange is a GET request and its response. The body is in JSON or Text, or is
// identified by SHA256 and Size.
type exchange struct {
	Org, Path, Accept string
	Status            int
	JSON              any
	Text              *string // text of an event stream
	SHA256            string
	Size              int
}

// lasting matches the paths of responses that do not change if runs, versions, or
// tokens are added.
var lasting = regexp.MustCompile(`^/v1/(runs/|checkpoints/|agents/[^/]+/versions/|(volumes|artifacts)/[^/]+/(versions/|download\?))`)

// compare repeats the recorded exchanges for which selected returns true, and reports
// each difference between the responses. Members that a newer server adds are allowed.
func (o *opened) compare(selected func(exchange) bool) {
	o.t.Helper()
	n := 0
	for _, e := range o.recorded.Exchanges {
		if !selected(e) {
			continue
		}
		n++
		status, body := o.get(e.Path, e.Accept, o.tokens[e.Org])
		for _, fault := range e.faults(status, body) {
			o.t.Errorf("GET %s: %s", e.Path, fault)
		}
	}
	if n < 100 {
		o.t.Errorf("%d exchanges were compared", n)
	}
}

func (o *opened) get(path, accept, token string) (status int, body []byte) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "http://"+o.Listen+path, nil)
	installation.Check(o.t, err)
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := apitest.Client(o.t).Do(req)
	installation.Check(o.t, err)
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	installation.Check(o.t, err)
	return res.StatusCode, body
}

// faults lists the differences between a response and the recorded response. Additional
// JSON members are allowed.
func (e exchange) faults(status int, body []byte) []string {
	switch {
	case status != e.Status:
		return []string{fmt.Sprintf("the status is %d, want %d: %s", status, e.Status, installation.Tail(string(body), 300))}
	case e.Text != nil:
		return streamFaults(*e.Text, string(body))
	case e.SHA256 != "":
		sum := sha256.Sum256(body)
		if got := hex.EncodeToString(sum[:]); got != e.SHA256 || len(body) != e.Size {
			return []string{fmt.Sprintf("%d bytes with the SHA-256 %s, want %d with %s", len(body), got, e.Size, e.SHA256)}
		}
		return nil
	}
	got, err := decode(body)
	if err != nil {
		return []string{err.Error()}
	}
	want := e.JSON
	switch {
	case e.Status != http.StatusOK:
		want = withoutMessage(want)
	case strings.HasPrefix(e.Path, "/v1/runs/"):
		want = withStatusMessage(want)
	case strings.HasPrefix(e.Path, "/v1/tokens?"):
		want, got = known(want, want), known(got, want)
	}
	return missing("", want, got)
}

func decode(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// withStatusMessage returns a recorded run as a newer server returns it: the message of a
// failed or timed-out run is also its statusMessage, and error is null unless the run failed.
func withStatusMessage(want any) any {
	run, ok := want.(map[string]any)
	if !ok || run["error"] == nil || run["statusMessage"] != nil {
		return want
	}
	run = maps.Clone(run)
	run["statusMessage"] = run["error"]
	if run["status"] == "timeout" {
		run["error"] = nil
	}
	return run
}

// withoutMessage returns an error response without its message, because releases may
// change messages.
func withoutMessage(v any) any {
	e := maps.Clone(v.(map[string]any)["error"].(map[string]any))
	delete(e, "message")
	return map[string]any{"error": e}
}

// known returns the tokens of page that are also in recorded, without the time of their
// last use.
func known(page, recorded any) any {
	var ids []any
	for _, item := range items(recorded) {
		ids = append(ids, item["id"])
	}
	var found []any
	for _, item := range items(page) {
		if slices.Contains(ids, item["id"]) {
			item = maps.Clone(item)
			delete(item, "lastUsedAt")
			found = append(found, item)
		}
	}
	return found
}

func items(page any) (all []map[string]any) {
	for _, item := range page.(map[string]any)["data"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// missing lists the parts of want that got lacks or changes. The messages begin with
// at, the position of want in the response.
func missing(at string, want, got any) (faults []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(w)) {
			value, present := g[name]
			if !present {
				faults = append(faults, at+"."+name+" is missing")
				continue
			}
			faults = append(faults, missing(at+"."+name, w[name], value)...)
		}
		return faults
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			faults = append(faults, missing(fmt.Sprintf("%s[%d]", at, i), w[i], g[i])...)
		}
		return faults
	}
	if !reflect.DeepEqual(want, got) {
		faults = append(faults, fmt.Sprintf("%s is %s, want %s", at, text(got), text(want)))
	}
	return faults
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return installation.Tail(string(b), 1000)
}

// streamFaults compares two streams of Server-Sent Events line by line. JSON data in
// got may have additional members.
func streamFaults(want, got string) (faults []string) {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(w) != len(g) {
		return []string{fmt.Sprintf("the stream has %d lines, want %d", len(g), len(w))}
	}
	for i := range w {
		faults = append(faults, lineFaults(fmt.Sprintf("line %d", i+1), w[i], g[i])...)
	}
	return faults
}

func lineFaults(at, want, got string) []string {
	if want == got {
		return nil
	}
	const prefix = "data: "
	w, err := decode([]byte(strings.TrimPrefix(want, prefix)))
	g, err2 := decode([]byte(strings.TrimPrefix(got, prefix)))
	if !strings.HasPrefix(want, prefix) || !strings.HasPrefix(got, prefix) || err != nil || err2 != nil {
		return []string{fmt.Sprintf("%s is %q, want %q", at, got, want)}
	}
	return missing(at, w, g)
}

// TestMissing checks that missing allows additional members of objects and reports all
// other differences.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want, got string
		faults    int
	}{
		{`{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null,"c":2}],"d":3}`, 0},
		{`{"a":1}`, `{"b":1}`, 1},
		{`{"a":null}`, `{}`, 1},
		{`{"a":1}`, `{"a":1.0}`, 1},
		{`[1]`, `[1,2]`, 1},
		{`[{"a":1},{"a":2}]`, `[{"a":2},{"a":1}]`, 2},
		{`{"a":{}}`, `{"a":[]}`, 1},
	} {
		want, err := decode([]byte(test.want))
		installation.Check(t, err)
		got, err := decode([]byte(test.got))
		installation.Check(t, err)
		if faults := missing("", want, got); len(faults) != test.faults {
			t.Errorf("%s in place of %s has the faults %q, want %d", test.got, test.want, faults, test.faults)
		}
	}
}

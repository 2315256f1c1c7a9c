package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/files/treewire"
)

// movingHead is a server with one volume. Each look-up of the volume returns another
// current version. A request that does not name a fixed version fails the test.
type movingHead struct {
	t       *testing.T
	lookups int
	matched []string // the header If-Match of each push
}

func (m *movingHead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.String(), "latest") || r.URL.Path == "/v1/volumes/vol_1/diff" && r.URL.Query().Get("to") == "" {
		m.t.Errorf("requested the current version: %s %s", r.Method, r.URL)
	}
	switch at := strings.TrimPrefix(r.URL.Path, "/v1/"); at {
	case "volumes":
		m.lookups++
		fmt.Fprintf(w, `{"data":[{"id":"vol_1","name":"v","currentVersionId":"v%d_a"}],"pagination":{"hasMore":false,"nextCursor":null}}`, m.lookups)
	case "volumes/vol_1/versions/v1_a/tree":
		var b bytes.Buffer
		out, err := treewire.NewTreeWriter(&b)
		if err == nil {
			err = out.Close()
		}
		if err != nil {
			m.t.Error(err)
		}
		_, _ = w.Write(b.Bytes())
	case "volumes/vol_1/versions/v1_a/files", "volumes/vol_1/diff":
		fmt.Fprint(w, `{"data":[],"pagination":{"hasMore":false,"nextCursor":null}}`)
	case "volumes/vol_1/versions/1", "volumes/vol_1/versions/v1":
		fmt.Fprint(w, `{"id":"v1_a","volumeId":"vol_1"}`)
	case "volumes/vol_1/versions":
		m.matched = append(m.matched, r.Header.Get("If-Match"))
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, `{"id":"v1_a","volumeId":"vol_1"}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		if !strings.HasPrefix(at, "chunks") {
			m.t.Errorf("%s %s", r.Method, r.URL)
		}
	}
}

func TestCommandPinsVersion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"volume pull v there --json":        `"version":"v1_a"`,
		"volume pull v@latest there --json": `"version":"v1_a"`,
		"volume files v":                    "",
		"volume diff v 1":                   "",
		"volume diff v 1 latest":            "",
		"volume diff v latest 1":            "",
	} {
		p := startCLI(t, &movingHead{t: t})
		p.start(strings.Fields(args)...)
		if code := p.exit(t); code != 0 || !strings.Contains(p.out.String(), want) {
			t.Errorf("%s: exit code %d:\n%s%s", args, code, p.out, p.err)
		}
	}
}

func TestIfMatchAcceptsVersionForms(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"1", "v1", "latest", "v1_a"} {
		m := &movingHead{t: t}
		p := startCLI(t, m)
		if err := os.WriteFile(filepath.Join(p.env.Dir, "f"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.start("volume", "push", "v", ".", "--if-match", form)
		if code := p.exit(t); code != 0 || len(m.matched) != 1 || m.matched[0] != `"v1_a"` {
			t.Errorf("%s: exit code %d, If-Match %q:\n%s", form, code, m.matched, p.err)
		}
	}
}

// TestPatchIsCompleteOrEmpty checks that a file that is too large for a patch is reported
// before a part of the patch, which git would apply, is printed.
func TestPatchIsCompleteOrEmpty(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/volumes":
			fmt.Fprint(w, `{"data":[{"id":"vol_1","name":"v","currentVersionId":"v2_a"}],"pagination":{"hasMore":false,"nextCursor":null}}`)
		case "/v1/volumes/vol_1/diff":
			fmt.Fprint(w, `{"data":[
				{"path":"a","change":"added","to":{"path":"a","kind":"file","mode":"0644","size":2,"sha256":"aa"}},
				{"path":"b","change":"removed","from":{"path":"b","kind":"file","mode":"0644","size":67108865,"sha256":"bb"}}
			],"pagination":{"hasMore":false,"nextCursor":null}}`)
		default:
			fmt.Fprint(w, "x\n")
		}
	}))
	p.start("volume", "diff", "v", "1", "2", "--patch")
	if code := p.exit(t); code != 1 || p.out.String() != "" || !strings.HasPrefix(p.err.String(), "stint: b is too large for a patch: it has 64.0 MiB, ") {
		t.Errorf("exit code %d:\n%s%s", code, p.out, p.err)
	}
}

func TestRemoveNeedsVersionAfterAt(t *testing.T) {
	t.Parallel()
	p := startCLI(t, http.NotFoundHandler())
	p.start("volume", "rm", "many@")
	if code := p.exit(t); code != 2 || !strings.Contains(p.err.String(), "the version is missing: name it as many@v1\nTry 'stint volume rm --help'.") {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}

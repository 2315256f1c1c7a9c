package image_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"

	stint "github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/image"
)

var someDigest = "sha256:" + strings.Repeat("0a", 32)

func TestParseReference(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]image.Reference{
		"alpine":                                     {Registry: "docker.io", Repository: "library/alpine", Tag: "latest"},
		"alpine:3.20":                                {Registry: "docker.io", Repository: "library/alpine", Tag: "3.20"},
		"acme/agent":                                 {Registry: "docker.io", Repository: "acme/agent", Tag: "latest"},
		"docker.io/alpine":                           {Registry: "docker.io", Repository: "library/alpine", Tag: "latest"},
		"index.docker.io/library/alpine":             {Registry: "docker.io", Repository: "library/alpine", Tag: "latest"},
		"ghcr.io/acme/agent@" + someDigest:           {Registry: "ghcr.io", Repository: "acme/agent", Digest: someDigest},
		"ghcr.io/acme/agent:V1@" + someDigest:        {Registry: "ghcr.io", Repository: "acme/agent", Tag: "V1", Digest: someDigest},
		"localhost/a":                                {Registry: "localhost", Repository: "a", Tag: "latest"},
		"127.0.0.1:5000/a/b__c/d-e.f:x":              {Registry: "127.0.0.1:5000", Repository: "a/b__c/d-e.f", Tag: "x"},
		"[::1]:5000/a":                               {Registry: "[::1]:5000", Repository: "a", Tag: "latest"},
		"Registry.Example.com:443/a/b":               {Registry: "Registry.Example.com:443", Repository: "a/b", Tag: "latest"},
		"a.b-c.example/x" + strings.Repeat("y", 200): {Registry: "a.b-c.example", Repository: "x" + strings.Repeat("y", 200), Tag: "latest"},
	} {
		got, err := image.ParseReference(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s, diff)
		}
	}
}

func TestParseReferenceErrors(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"":                                     "The image is empty.",
		strings.Repeat("a", 600):               "longer than 512",
		strings.Repeat("a", 300):               "longer than 255",
		"https://ghcr.io/a/b":                  "without 'https://'",
		"a b":                                  "without spaces",
		"a\x00b":                               "in ASCII",
		"größe":                                "in ASCII",
		"Alpine":                               "lower case",
		"ghcr.io/Acme/agent":                   "lower case",
		"a//b":                                 "is not named like",
		"/a":                                   "is not named like",
		"a/":                                   "is not named like",
		"../a":                                 "registry '..'",
		"a/../b":                               "is not named like",
		"a..b/c":                               "registry 'a..b'",
		"-a.example/b":                         "registry '-a.example'",
		"a:":                                   "The tag of",
		"a:-x":                                 "The tag of",
		"a:" + strings.Repeat("x", 129):        "The tag of",
		"a@sha256:12":                          "The digest of",
		"a@sha512:" + strings.Repeat("0a", 64): "The digest of",
		"a@" + someDigest + "@" + someDigest:   "The digest of",
		"a.example:port/b":                     "registry 'a.example:port'",
	} {
		_, err := image.ParseReference(s)
		e, ok := errors.AsType[*stint.Error](err)
		if !ok {
			t.Errorf("%q: got %v, want a fault", s, err)
			continue
		}
		if e.Param != "image" || e.Kind != stint.KindInvalid || !strings.Contains(e.Message, want) {
			t.Errorf("%q: got %+v, want %q", s, e, want)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"alpine", "ghcr.io/a/b:c@" + someDigest, "[::1]:1/a", "localhost/a", "a:b:c", "a@b@c", "docker.io/x/y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := image.ParseReference(s)
		if err != nil {
			if _, ok := errors.AsType[*stint.Error](err); !ok {
				t.Fatalf("%q: %v is not a *stint.Error", s, err)
			}
			return
		}
		again, err := image.ParseReference(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %+v, and its string parses as %+v, %v", s, r, again, err)
		}
		if _, err := name.ParseReference(r.String()); err != nil {
			t.Errorf("%q: the registry client cannot parse it: %v", s, err)
		}
	})
}

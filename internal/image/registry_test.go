package image_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	stint "github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

// private returns a handler that calls h only for requests of the user "robot" with the
// password "secret".
func private(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, word, _ := r.BasicAuth(); user != "robot" || word != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func TestCredentialsFromDockerConfiguration(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("DOCKER_CONFIG", folder)
	t.Setenv("HOME", folder)
	host := imagetest.Serve(t, private)
	tag, err := name.NewTag(host + "/a:1")
	if err != nil {
		t.Fatal(err)
	}
	built := imagetest.Build(t, "linux", runtime.GOARCH, v1.Config{}, static.NewLayer(layer(t, file("etc/text", "private")), types.OCIUncompressedLayer))
	if err := remote.Write(tag, built, remote.WithAuth(&authn.Basic{Username: "robot", Password: "secret"})); err != nil {
		t.Fatal(err)
	}
	s := open(t, image.Config{Keychain: authn.DefaultKeychain})
	refused := func() {
		t.Helper()
		_, err := s.Acquire(t.Context(), tag.String(), nil)
		wantFault(t, err, stint.KindInvalid, "refused access", host, "credentials")
		if err != nil && strings.Contains(err.Error(), "wrong-word") {
			t.Errorf("%v contains the password", err)
		}
	}
	login := func(word string) {
		t.Helper()
		auth := base64.StdEncoding.EncodeToString([]byte("robot:" + word))
		config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth)
		if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused()
	login("wrong-word")
	refused()
	login("secret")
	if r := acquire(t, s, tag.String()); text(t, r) != "private" {
		t.Errorf("got %q", text(t, r))
	}
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, image.Config{}).Acquire(t.Context(), tag.String(), nil)
	wantFault(t, err, stint.KindInvalid, "refused access")
	_, err = open(t, image.Config{Keychain: authn.DefaultKeychain}).Acquire(t.Context(), tag.String(), nil)
	wantFault(t, err, stint.KindUnavailable, "cannot read its credentials")
}

// changeResponses returns a wrapper for a registry's handler, and the number of GET
// requests that the wrapper received for paths that contain part. The bodies of the
// first responses to such requests, up to times, are replaced by the result of bend. If
// the result is shorter than the body, the connection breaks after it.
func changeResponses(part string, times int64, bend func([]byte) []byte) (func(http.Handler) http.Handler, *atomic.Int64) {
	var seen atomic.Int64
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) || seen.Add(1) > times {
				h.ServeHTTP(w, r)
				return
			}
			kept := &keptAnswer{ResponseWriter: w}
			h.ServeHTTP(kept, r)
			b := bend(kept.body)
			if len(b) < len(kept.body) { // the connection breaks
				_, _ = w.Write(b)
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(b)
		})
	}, &seen
}

type keptAnswer struct {
	http.ResponseWriter
	body []byte
}

func (k *keptAnswer) Write(b []byte) (int, error) {
	k.body = append(k.body, b...)
	return len(b), nil
}

func flipBit(b []byte) []byte {
	b = append([]byte(nil), b...)
	b[len(b)/2] ^= 1
	return b
}

func TestWrongDigest(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"content": "/blobs/", "manifest": "/manifests/sha256:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrap, seen := changeResponses(part, 1<<40, flipBit)
			host := imagetest.Serve(t, wrap)
			ref, _ := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
			dir := filepath.Join(t.TempDir(), "images")
			_, err := open(t, image.Config{Dir: dir}).Acquire(t.Context(), ref, nil)
			wantFault(t, err, stint.KindUnavailable, "did not answer with the image")
			if left := append(list(t, dir, "work"), list(t, dir, "roots")...); len(left) > 0 || seen.Load() == 0 {
				t.Errorf("left on disk: %v; %d responses were changed", left, seen.Load())
			}
		})
	}
}

func TestInterruptedDownloadsAreRetried(t *testing.T) {
	t.Parallel()
	wrap, seen := changeResponses("/blobs/", 2, func(b []byte) []byte { return b[:len(b)/2] })
	host := imagetest.Serve(t, wrap)
	ref, _ := imagetest.Push(t, host, "a", textFile("one"), v1.Config{})
	if r := acquire(t, open(t, image.Config{}), ref); text(t, r) != "one" {
		t.Errorf("got %q", text(t, r))
	}
	if seen.Load() < 3 {
		t.Errorf("%d downloads, want some interrupted", seen.Load())
	}
}

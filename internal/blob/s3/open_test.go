package s3_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
)

// TestCredentials checks that Open reads credentials from a file, and checks the errors for
// missing and wrong credentials. It changes the environment, so it does not run in parallel.
func TestCredentials(t *testing.T) {
	url := s3test.URL(t)
	id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	file := filepath.Join(t.TempDir(), "credentials")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "here",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/", // prevents a search for roles of the machine
	} {
		t.Setenv(name, value)
	}
	_, err := s3.Open(t.Context(), s3.Config{URL: url})
	if err == nil || !strings.Contains(err.Error(), "no credentials for the storage: set AWS_ACCESS_KEY_ID") {
		t.Errorf("without credentials: %v", err)
	}
	profiles := fmt.Sprintf("[here]\naws_access_key_id = %s\naws_secret_access_key = %s\n[wrong]\naws_access_key_id = %[1]s\naws_secret_access_key = b\n", id, secret)
	must(t, os.WriteFile(file, []byte(profiles), 0o600))
	put(t, open(t, url), "a/k", []byte("x"))
	t.Setenv("AWS_PROFILE", "wrong")
	_, err = s3.Open(t.Context(), s3.Config{URL: url})
	if err == nil || !strings.Contains(err.Error(), "does not accept the credentials") {
		t.Errorf("with wrong credentials: %v", err)
	}
}

// TestRegion checks the region of a URL without one: the region of the environment is used
// or, if the environment has none, the region that the server reports.
func TestRegion(t *testing.T) {
	url := strings.NewReplacer("region=eu-test-1&", "", "path_style=true&", "").Replace(s3test.URL(t))
	put(t, open(t, url), "a/k", []byte("x"))
	t.Setenv("AWS_DEFAULT_REGION", "nowhere")
	if _, err := s3.Open(t.Context(), s3.Config{URL: url}); err == nil || !strings.Contains(err.Error(), "another region") {
		t.Errorf("with another region in the environment: %v", err)
	}
}

// TestErrorMessages checks the messages for error responses.
func TestErrorMessages(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		status int
		want   string
	}{
		"NoSuchBucket":                 {404, "has no bucket 'bucket'"},
		"AccessDenied":                 {403, "denies access to the bucket 'bucket'"},
		"InvalidAccessKeyId":           {403, "does not accept the credentials"},
		"SignatureDoesNotMatch":        {403, "does not accept the credentials"},
		"RequestTimeTooSkewed":         {403, "clock of this machine"},
		"AuthorizationHeaderMalformed": {400, "name region=eu-right-1 in the storage's URL"},
		"PermanentRedirect":            {301, "name region=eu-right-1 in the storage's URL"},
		"Peculiar":                     {418, "answered Peculiar (418)"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			body := struct {
				XMLName      xml.Name `xml:"Error"`
				Code, Region string
			}{Code: code, Region: "eu-right-1"}
			if err := xml.NewEncoder(w).Encode(body); err != nil {
				t.Error(err)
			}
		}))
		s, err := s3.Connect(s3.Config{URL: "s3://bucket?region=here&endpoint=" + server.URL})
		must(t, err)
		if err := s.Delete(t.Context(), "a/k"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", code, err, c.want)
		}
		must(t, s.Close())
		server.Close()
	}
}

// TestUntrustedCertificate checks that the error for a server with a self-signed
// certificate names SSL_CERT_FILE.
func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	s, err := s3.Connect(s3.Config{URL: "s3://bucket?region=here&endpoint=" + server.URL})
	must(t, err)
	defer s.Close()
	if err := s.Delete(t.Context(), "a/k"); err == nil || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("Delete = %v, want an error about the certificate", err)
	}
}

// TestWrongRanges checks that Get fails if the response contains another range of bytes
// than requested.
func TestWrongRanges(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"range ignored": {},
		"another range": {"Content-Range": {"bytes 0-9/10"}},
		"too much":      {"Content-Range": {"bytes 5-14/20"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), header)
			w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
			if len(header) > 0 {
				w.WriteHeader(http.StatusPartialContent)
			}
			if _, err := w.Write([]byte("0123456789")); err != nil {
				t.Error(err)
			}
		}))
		s, err := s3.Connect(s3.Config{URL: "s3://bucket?region=here&endpoint=" + server.URL})
		must(t, err)
		if r, err := s.Get(t.Context(), "a/k", 5, 3); err == nil {
			t.Errorf("%s: Get succeeded", name)
			must(t, r.Close())
		} else if !strings.Contains(err.Error(), "was asked for") {
			t.Errorf("%s: %v", name, err)
		}
		must(t, s.Close())
		server.Close()
	}
}

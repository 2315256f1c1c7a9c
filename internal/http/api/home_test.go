package api_test

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	spec "github.com/stint-dev/stint/api"
	"github.com/stint-dev/stint/internal/http/api"
)

func TestHomePage(t *testing.T) {
	w := newWorld(t, func(c *api.Config) { c.PublicURL = "https://stint.example.com" })
	for _, accept := range []string{"", "*/*", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"} {
		header := map[string]string{"Accept": accept}
		if accept == "" {
			header = nil
		}
		a := w.do(request{method: "GET", path: "/", token: "-", header: header})
		page := string(a.body)
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("Accept %q: %d %v", accept, a.StatusCode, a.Header)
		}
		for _, want := range []string{"<title>Stint</title>", "stint auth login --url https://stint.example.com", `href="/v1/openapi.json"`, "version"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not contain %q:\n%s", want, page)
			}
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "ZgotmplZ") || !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
			t.Errorf("policy %q of\n%s", a.Header.Get("Content-Security-Policy"), page)
		}
		_, style, _ := strings.Cut(page, "<style>")
		style, _, _ = strings.Cut(style, "</style>")
		sum := sha256.Sum256([]byte(style))
		if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(a.Header.Get("Content-Security-Policy"), "'sha256-"+hash+"'") {
			t.Errorf("the policy does not allow the style of the page, which has the hash %s", hash)
		}
		head := w.do(request{method: "HEAD", path: "/", token: "-", header: header})
		if head.StatusCode != 200 || len(head.body) > 0 || head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
			t.Errorf("HEAD: %d %v", head.StatusCode, head.Header)
		}
	}
	if a := w.do(request{method: "POST", path: "/", token: "-", hostile: true}); a.StatusCode != 405 || a.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", a.StatusCode, a.Header)
	}
}

func TestOpenAPI(t *testing.T) {
	w := newWorld(t)
	a := w.do(request{method: "GET", path: "/v1/openapi.json", token: "-"})
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, headers %v, %d bytes", a.StatusCode, a.Header, len(a.body))
	}
	served, err := openapi3.NewLoader().LoadFromData(a.body)
	if err != nil {
		t.Fatal(err)
	}
	written, err := openapi3.NewLoader().LoadFromData(spec.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(written.Components.Schemas)), slices.Sorted(maps.Keys(served.Components.Schemas))); diff != "" || served.Paths.Len() != written.Paths.Len() {
		t.Errorf("%d paths, want %d; schemas (-want +got):\n%s", served.Paths.Len(), written.Paths.Len(), diff)
	}
	known := map[string]string{"If-None-Match": a.Header.Get("ETag")}
	if a := w.do(request{method: "GET", path: "/v1/openapi.json", token: "-", header: known}); a.StatusCode != 304 {
		t.Errorf("with the ETag: %d", a.StatusCode)
	}
}

// TestErrorsAreDocumented checks that each code of an error and each reason of a status
// has a section in docs/errors.md, to which docUrl refers.
func TestErrorsAreDocumented(t *testing.T) {
	w := newWorld(t)
	a := w.do(request{method: "GET", path: "/v1/runs?status=done", hostile: true})
	if want := `"docUrl":"https://github.com/stint-dev/stint/blob/main/docs/errors.md#invalid_parameter"`; !strings.Contains(string(a.body), want) {
		t.Errorf("the error is %s", a.body)
	}
	page, err := os.ReadFile("../../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, heading := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, heading[1])
	}
	doc, err := openapi3.NewLoader().LoadFromData(spec.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"ErrorCode", "StatusReason"} {
		for _, code := range doc.Components.Schemas[schema].Value.Enum {
			if !slices.Contains(sections, code.(string)) {
				t.Errorf("%s has no section, so %s is wrong", code, stint.ErrorDocURL(code.(string)))
			}
		}
	}
}

package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/stint-dev/stint"
	spec "github.com/stint-dev/stint/api"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/buildinfo"
)

//go:embed home.html
var homeText string

//go:embed home.css
var homeStyle string

var homePage = template.Must(template.New("home").Parse(homeText))

// homePolicy allows the page's own style and nothing else.
var homePolicy = func() string {
	sum := sha256.Sum256([]byte(homeStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// home serves a page for users who open the server's address in a browser. Clients that
// accept only JSON get the error of an unknown path.
func (a *api) home(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	h := w.Header()
	h.Add("Vary", "Accept")
	if accept := r.Header["Accept"]; len(accept) > 0 && quality(accept, "text", "html") < quality(accept, "application", "json") {
		return errUnknownPath
	}
	var page bytes.Buffer
	if err := homePage.Execute(&page, map[string]any{
		"Style": template.CSS(homeStyle), //nolint:gosec // a constant
		"URL":   a.baseURL(r), "Version": buildinfo.Version(), "Docs": stint.DocsURL,
	}); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	h.Set("Content-Security-Policy", homePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	writeText(w, "text/html; charset=utf-8", page.Bytes())
	return nil
}

// openAPI serves the description of the API.
func (a *api) openAPI(w http.ResponseWriter, r *http.Request, _ *auth.Caller) error {
	if notModified(w, r, openAPITag) {
		return nil
	}
	document, err := openAPIJSON()
	if err != nil {
		return fmt.Errorf("convert the description of the API: %w", err)
	}
	writeText(w, "application/json", document)
	return nil
}

// openAPIJSON returns the description of the API as JSON.
var openAPIJSON = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(spec.OpenAPI) })

var openAPITag = func() string {
	sum := sha256.Sum256(spec.OpenAPI)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}()

// writeText responds with a document of a type that browsers display.
func writeText(w http.ResponseWriter, contentType string, text []byte) {
	h := w.Header()
	if h["Cache-Control"] == nil {
		h["Cache-Control"] = noStore
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text)
}

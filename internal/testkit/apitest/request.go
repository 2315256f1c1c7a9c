package apitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// prepareRequest checks the request and returns the request to send: x.req, or a copy
// with the same body if the check has read the body of x.req.
func (x *exchange) prepareRequest() (*http.Request, error) {
	if !x.bodyIsJSON() || x.req.Body == nil || x.req.Body == http.NoBody {
		x.checkRequest(nil)
		return x.req, nil
	}
	raw, err := io.ReadAll(x.req.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the request's body: %w", err)
	}
	if err := x.req.Body.Close(); err != nil {
		return nil, fmt.Errorf("closing the request's body: %w", err)
	}
	x.checkRequest(bytes.NewReader(raw))
	sent := x.req.Clone(x.req.Context())
	sent.Body = io.NopCloser(bytes.NewReader(raw))
	return sent, nil
}

func (x *exchange) bodyIsJSON() bool {
	return strings.HasPrefix(x.req.Header.Get("Content-Type"), "application/json")
}

// checkRequest compares the request with its operation. body is a copy of the request's
// body, or nil. checkRequest reads the copy only if the Content-Type is JSON.
func (x *exchange) checkRequest(body io.Reader) {
	if x.target.operation == nil || marked(x.req.Context(), invalidKey) {
		return // the document does not describe the request, or the test marked it as invalid
	}
	x.checkParameters()
	x.checkRequestBody(body)
}

func (x *exchange) checkParameters() {
	parameters := x.target.parameters()
	input := &openapi3filter.RequestValidationInput{
		Request:     x.req,
		PathParams:  x.target.params,
		QueryParams: x.req.URL.Query(),
		Options: &openapi3filter.Options{
			SkipSettingDefaults:     true,
			SchemaValidationOptions: []openapi3.SchemaValidationOption{openapi3.DisableSchemaErrorDetails()},
		},
	}
	for _, p := range parameters {
		if err := openapi3filter.ValidateParameter(x.req.Context(), input, p); err != nil {
			x.fault("request: %v", err)
		}
	}
	for name := range input.QueryParams {
		if !x.knowsQuery(name, parameters) {
			x.fault("request: the query parameter '%s' does not exist", name)
		}
	}
}

func (x *exchange) knowsQuery(name string, parameters []*openapi3.Parameter) bool {
	for _, scheme := range x.doc.security(x.target.operation) {
		if s := x.doc.Components.SecuritySchemes[scheme].Value; s.In == "query" && s.Name == name {
			return true
		}
	}
	family, _, _ := strings.Cut(name, "[")
	return slices.ContainsFunc(parameters, func(p *openapi3.Parameter) bool {
		return p.In == "query" && (p.Name == name || p.Style == "deepObject" && p.Name == family)
	})
}

func (x *exchange) checkRequestBody(body io.Reader) {
	present := x.req.Body != nil && x.req.Body != http.NoBody
	promise := x.target.operation.RequestBody
	switch {
	case promise == nil && present:
		x.fault("request: it has a body, the operation takes none")
		return
	case promise == nil:
		return
	case !present:
		if promise.Value.Required {
			x.fault("request: it has no body, the operation needs one")
		}
		return
	}
	contentType := x.req.Header.Get("Content-Type")
	media := promise.Value.Content.Get(contentType)
	if media == nil {
		x.fault("request: the operation takes no Content-Type '%s'", contentType)
		return
	}
	if body == nil || !x.bodyIsJSON() {
		return
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		x.fault("request: reading its body: %v", err)
		return
	}
	for _, m := range matchesJSON(media.Schema.Value, raw, openapi3.VisitAsRequest()) {
		x.fault("request body: %s", m)
	}
}

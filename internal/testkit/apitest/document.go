package apitest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/stint-dev/stint/api"
)

// document is the API document and the routes derived from its paths.
type document struct {
	*openapi3.T
	routes []route
}

// route is a path of the document, split at its slashes.
type route struct {
	path     string
	segments []string
	rest     bool // the last segment matches the rest of the path, including slashes
	item     *openapi3.PathItem
}

// embedded returns the document that package api embeds.
var embedded = sync.OnceValue(func() *document {
	d, err := load(api.OpenAPI)
	if err != nil {
		panic("apitest: " + err.Error())
	}
	return d
})

func load(raw []byte) (*document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, fmt.Errorf("loading the API document: %w", err)
	}
	// Validation of the examples is slow, so only one test does it.
	if err := doc.Validate(context.Background(), openapi3.DisableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("checking the API document: %w", err)
	}
	d := &document{T: doc}
	for at, item := range doc.Paths.Map() {
		d.routes = append(d.routes, route{
			path: at, segments: strings.Split(at, "/")[1:], rest: takesRest(item), item: item,
		})
	}
	slices.SortFunc(d.routes, func(a, b route) int { return strings.Compare(a.path, b.path) })
	return d, nil
}

func takesRest(item *openapi3.PathItem) bool {
	return slices.ContainsFunc(item.Parameters, func(p *openapi3.ParameterRef) bool {
		multi, _ := p.Value.Extensions["x-multi-segment"].(bool)
		return multi
	})
}

// target is the operation of a request. If the path is unknown, route is nil; if the
// path does not have the method, operation is nil.
type target struct {
	route     *route
	operation *openapi3.Operation
	params    map[string]string // path parameters, decoded

	// encodesSlash is true if path.Clean would change the decoded path, for example
	// because the path contains an encoded slash.
	encodesSlash bool
}

// find returns the target of a request. Every GET operation also supports HEAD.
func (d *document) find(r *http.Request) target {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	if len(segments) < 2 || segments[0] != "" {
		return target{}
	}
	for i := range d.routes {
		params, ok := d.routes[i].match(segments[1:])
		if !ok {
			continue
		}
		item := d.routes[i].item
		op := item.Operations()[r.Method]
		if op == nil && r.Method == http.MethodHead {
			op = item.Get
		}
		return target{route: &d.routes[i], operation: op, params: params, encodesSlash: path.Clean(r.URL.Path) != r.URL.Path}
	}
	return target{}
}

func (r *route) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(r.segments) && (!r.rest || len(segments) <= len(r.segments)) {
		return nil, false
	}
	params := map[string]string{}
	for i, want := range r.segments {
		got := segments[i]
		if r.rest && i == len(r.segments)-1 {
			got = strings.Join(segments[i:], "/")
		}
		value, err := url.PathUnescape(got)
		if err != nil {
			return nil, false
		}
		name, isParam := strings.CutPrefix(want, "{")
		switch {
		case isParam && !unclean(got):
			params[strings.TrimSuffix(name, "}")] = value
		case isParam || value != want:
			return nil, false
		}
	}
	return params, true
}

// unclean reports whether a segment of an escaped path is empty, "." or "..". A path
// parameter does not match such segments.
func unclean(segments string) bool {
	return slices.ContainsFunc(strings.Split(segments, "/"), func(s string) bool {
		return s == "" || s == "." || s == ".."
	})
}

// parameters returns the parameters that the document declares for the path and for the
// operation.
func (t target) parameters() []*openapi3.Parameter {
	var all []*openapi3.Parameter
	for _, list := range []openapi3.Parameters{t.route.item.Parameters, t.operation.Parameters} {
		for _, p := range list {
			all = append(all, p.Value)
		}
	}
	return all
}

// security returns the names of the operation's security schemes. The list is empty
// if the operation needs no token.
func (d *document) security(op *openapi3.Operation) []string {
	requirements := d.Security
	if op.Security != nil {
		requirements = *op.Security
	}
	var schemes []string
	for _, r := range requirements {
		for name := range r {
			schemes = append(schemes, name)
		}
	}
	return schemes
}

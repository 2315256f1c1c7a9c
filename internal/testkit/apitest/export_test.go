package apitest

import (
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// Aim shows tests what a request is aimed at: the operation, the values of its
// path parameters and all its parameters. known tells whether the path is.
func Aim(r *http.Request) (op *openapi3.Operation, path map[string]string, parameters []*openapi3.Parameter, known bool) {
	t := promised().find(r)
	if t.operation == nil {
		return nil, nil, nil, t.route != nil
	}
	return t.operation, t.params, t.parameters(), true
}

// Open reports whether an operation asks for no token.
func Open(op *openapi3.Operation) bool { return len(promised().security(op)) == 0 }

// Decode is the strict reader of JSON.
var Decode = decode

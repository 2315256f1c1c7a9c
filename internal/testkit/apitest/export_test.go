package apitest

import (
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// Find returns the target of a request: the operation, the values of its path
// parameters, and all its parameters. known reports whether the path is documented.
func Find(r *http.Request) (op *openapi3.Operation, path map[string]string, parameters []*openapi3.Parameter, known bool) {
	t := embedded().find(r)
	if t.operation == nil {
		return nil, nil, nil, t.route != nil
	}
	return t.operation, t.params, t.parameters(), true
}

// Open reports whether an operation needs no token.
func Open(op *openapi3.Operation) bool { return len(embedded().security(op)) == 0 }

// Decode decodes JSON strictly.
var Decode = decode

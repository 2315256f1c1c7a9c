package apitest

import (
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"
)

// Find returns the operation of a request, the values of its path parameters, and the
// declarations of all its parameters. If the document does not contain the operation,
// op is nil. known reports whether the document contains the path.
func Find(r *http.Request) (op *openapi3.Operation, path map[string]string, parameters []*openapi3.Parameter, known bool) {
	t := embedded().find(r)
	if t.operation == nil {
		return nil, nil, nil, t.route != nil
	}
	return t.operation, t.params, t.parameters(), true
}

// Open reports whether an operation needs no token.
func Open(op *openapi3.Operation) bool { return len(embedded().security(op)) == 0 }

// Decode decodes one JSON value. It returns an error if an object contains a name twice
// or if data follows the value.
var Decode = decode

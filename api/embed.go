package api

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the API, as YAML. It must not be
// changed.
//
//go:embed openapi.yaml
var OpenAPI []byte

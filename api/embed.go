package api

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the API in YAML. It must not be modified.
//
//go:embed openapi.yaml
var OpenAPI []byte

package api_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/stint-dev/stint/api"
)

func document(raw []byte) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background(), openapi3.EnableMultiError(), openapi3.EnableSchemaFormatValidation())
}

var embedded = sync.OnceValues(func() (*openapi3.T, error) { return document(api.OpenAPI) })

// valid returns the embedded contract, which is parsed and validated once for all
// tests. Tests must not modify it.
func valid(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

type operation struct {
	path, method string
	*openapi3.Operation
}

func operations(doc *openapi3.T) []operation {
	var all []operation
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			all = append(all, operation{path, method, op})
		}
	}
	return all
}

func TestContractIsValid(t *testing.T) {
	t.Parallel()
	if doc := valid(t); doc.OpenAPI != "3.1.0" || doc.Info.Version != "v1" {
		t.Errorf("OpenAPI %s, version %s", doc.OpenAPI, doc.Info.Version)
	}
}

// TestInvalidExamples checks that the contract is invalid if one of its examples
// violates its schema.
func TestInvalidExamples(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"in a page":       {"large-1: {inputTokens: 18230,", "large-1: {inputTokens: many,"},
		"in a request":    {"priority: 5", "priority: 50"},
		"in an error":     {"type: not_found_error, code: resource_not_found, message", "type: not_found_error, code: nothing, message"},
		"an extra member": {"value: {status: ok}", "value: {status: ok, more: 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := strings.Replace(string(api.OpenAPI), change[0], change[1], 1)
			if raw == string(api.OpenAPI) {
				t.Fatalf("the contract does not contain %q", change[0])
			}
			if _, err := document([]byte(raw)); err == nil {
				t.Error("the invalid example was not found")
			}
		})
	}
}

func TestOperationsAreComplete(t *testing.T) {
	t.Parallel()
	doc, seen := valid(t), map[string]string{}
	for _, op := range operations(doc) {
		at := op.method + " " + op.path
		if other := seen[op.OperationID]; op.OperationID == "" || other != "" {
			t.Errorf("%s: operationId %q is missing or equals that of %s", at, op.OperationID, other)
		}
		seen[op.OperationID] = at
		if op.Summary == "" || len(op.Tags) != 1 || doc.Tags.Get(op.Tags[0]) == nil {
			t.Errorf("%s: summary %q, tags %v", at, op.Summary, op.Tags)
		}
		statuses := slices.Sorted(maps.Keys(op.Responses.Map()))
		if !slices.ContainsFunc(statuses, func(s string) bool { return s[0] == '2' || s[0] == '3' }) {
			t.Errorf("%s: no success in %v", at, statuses)
		}
		for _, must := range requiredStatuses(op) {
			if !slices.Contains(statuses, must) {
				t.Errorf("%s: status %s is missing", at, must)
			}
		}
		hasKey := op.Parameters.GetByInAndName("header", "Idempotency-Key") != nil
		if hasKey != (op.method == http.MethodPost && !mayBeRepeated[op.OperationID]) {
			t.Errorf("%s: Idempotency-Key %v", at, hasKey)
		}
	}
}

// mayBeRepeated contains the POST operations that need no Idempotency-Key: the
// idempotent ones, and callTools, because JSON-RPC messages have their own IDs.
var mayBeRepeated = map[string]bool{"sendChunks": true, "findMissingChunks": true, "readArtifactChunks": true, "readVolumeChunks": true, "callTools": true}

func requiredStatuses(op operation) []string {
	must := []string{"500"}
	if op.Security == nil || len(*op.Security) > 0 {
		must = append(must, "401", "403", "429", "503")
		if strings.Contains(op.path, "{id}") {
			must = append(must, "404")
		}
	}
	if op.RequestBody != nil {
		must = append(must, "400", "413", "415")
	}
	if op.method == http.MethodPost && !mayBeRepeated[op.OperationID] {
		must = append(must, "400", "409")
	}
	return must
}

func TestResponsesHaveCommonHeaders(t *testing.T) {
	t.Parallel()
	for _, op := range operations(valid(t)) {
		for status, r := range op.Responses.Map() {
			for _, name := range []string{"X-Request-Id", "X-API-Version"} {
				if h := r.Value.Headers[name]; h == nil || !h.Value.Required {
					t.Errorf("%s %s %s: no required header %s", op.method, op.path, status, name)
				}
			}
		}
	}
}

// TestErrorsMatchStatuses checks that the contract allows, for each error status,
// exactly the type and the codes of its errors.
func TestErrorsMatchStatuses(t *testing.T) {
	t.Parallel()
	doc := valid(t)
	want := map[string][2]string{
		"400": {"invalid_request_error", "invalid_parameter missing_parameter invalid_state"},
		"401": {"authentication_error", "invalid_api_key"},
		"403": {"permission_error", "insufficient_scope origin_not_allowed quota_exceeded"},
		"404": {"not_found_error", "resource_not_found"},
		"405": {"invalid_request_error", "method_not_allowed"},
		"406": {"invalid_request_error", "not_acceptable"},
		"409": {"conflict_error", "resource_already_exists version_conflict chunks_missing idempotency_key_reused idempotency_key_in_use"},
		"410": {"gone_error", "link_expired"},
		"413": {"invalid_request_error", "request_too_large"},
		"415": {"invalid_request_error", "unsupported_media_type"},
		"416": {"invalid_request_error", "range_not_satisfiable"},
		"429": {"rate_limit_error", "rate_limit_exceeded queue_full"},
		"500": {"api_error", "internal_error"},
		"503": {"api_error", "unavailable"},
	}
	check := func(at, status string, r *openapi3.Response) {
		body := r.Content["application/json"].Schema
		if last := len(body.Value.AnyOf) - 1; last >= 0 { // /mcp also allows errors of JSON-RPC; the error of the API is last
			body = body.Value.AnyOf[last]
		}
		pair := body.Value.AllOf[1].Value.Properties["error"].Value.Properties
		got := [2]string{words(pair["type"]), words(pair["code"])}
		if got != want[status] {
			t.Errorf("%s: %v, want %v", at, got, want[status])
		}
	}
	for _, op := range operations(doc) {
		for status, r := range op.Responses.Map() {
			if status >= "400" && (op.path != "/mcp" || status != "404") { // /mcp returns 404 only as a JSON-RPC error
				check(op.method+" "+op.path+" "+status, status, r.Value)
			}
		}
	}
	check("MethodNotAllowed", "405", doc.Components.Responses["MethodNotAllowed"].Value)
}

func words(s *openapi3.SchemaRef) string {
	var all []string
	for _, v := range s.Value.Enum {
		text, _ := v.(string)
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestSchemasUseEnforcedKeywords checks that the schemas do not use keywords that the
// validator of the tests ignores.
func TestSchemasUseEnforcedKeywords(t *testing.T) {
	t.Parallel()
	doc := valid(t)
	if !usesSkipped(&openapi3.Schema{Const: "a"}) || usesSkipped(&openapi3.Schema{MinLength: 1}) {
		t.Fatal("usesSkipped does not detect the keywords")
	}
	seen := 0
	err := doc.WalkSchemas(func(at string, ref *openapi3.SchemaRef) error {
		seen++
		if usesSkipped(ref.Value) {
			t.Errorf("%s uses a keyword that is not enforced", at)
		}
		return nil
	})
	if err != nil || seen < 300 {
		t.Errorf("walked over %d schemas: %v", seen, err)
	}
}

func usesSkipped(s *openapi3.Schema) bool {
	return s.Const != nil || s.PrefixItems != nil || s.Contains != nil || s.PatternProperties != nil || s.DependentSchemas != nil ||
		s.PropertyNames != nil || s.UnevaluatedItems.Has != nil || s.UnevaluatedItems.Schema != nil ||
		s.UnevaluatedProperties.Has != nil || s.UnevaluatedProperties.Schema != nil || s.If != nil || s.DependentRequired != nil ||
		s.Defs != nil || s.ContentSchema != nil || s.DynamicRef != ""
}

// TestObjectsHaveAdditionalProperties checks that every object schema defines whether
// it allows further members, so that tests find unknown members in responses.
func TestObjectsHaveAdditionalProperties(t *testing.T) {
	t.Parallel()
	for name, s := range valid(t).Components.Schemas {
		if s.Value.Type == nil || !s.Value.Type.Includes("object") {
			continue
		}
		if more := s.Value.AdditionalProperties; more.Has == nil && more.Schema == nil {
			t.Errorf("%s does not define additionalProperties", name)
		}
	}
}

// TestComponentsAreUsed checks that every component is referenced.
func TestComponentsAreUsed(t *testing.T) {
	t.Parallel()
	doc, text := valid(t), string(api.OpenAPI)
	used := func(kind, name string) {
		if !strings.Contains(text, "'#/components/"+kind+"/"+name+"'") && name != "MethodNotAllowed" {
			t.Errorf("%s %s is not referenced", kind, name)
		}
	}
	for name := range doc.Components.Schemas {
		used("schemas", name)
	}
	for name := range doc.Components.Parameters {
		used("parameters", name)
	}
	for name := range doc.Components.Responses {
		used("responses", name)
	}
	for name := range doc.Components.Headers {
		used("headers", name)
	}
	for name := range doc.Components.Examples {
		used("examples", name)
	}
}

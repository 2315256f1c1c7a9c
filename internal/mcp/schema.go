package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stint-dev/stint"
)

// properties maps the names of an object's members to their schemas.
type properties map[string]*jsonschema.Schema

// anything lists all JSON types. The empty schema has the same meaning, but it is
// encoded as true, and some clients then refuse all tools.
var anything = []string{"object", "array", "string", "number", "boolean", "null"}

// schemaOf returns the JSON Schema of a struct, changed by refine.
func schemaOf[T any](refine func(properties)) *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[stint.Time]():      {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {Types: anything},
		reflect.TypeFor[stint.Status]():    {Type: "string", Enum: statuses()},
	}})
	if err != nil {
		panic(fmt.Sprintf("mcp: %v", err)) // cannot depend on input, because the types are fixed
	}
	s.Type, s.Types = "object", nil // a pointer type would allow null, but results are never nil
	if refine != nil {
		refine(s.Properties)
	}
	return s
}

func statuses() []any {
	all := make([]any, len(stint.Statuses))
	for i, s := range stint.Statuses {
		all[i] = string(s)
	}
	return all
}

// between limits an integer and sets its default.
func (p properties) between(name string, least, most int, otherwise int) {
	low, high := float64(least), float64(most)
	p[name].Minimum, p[name].Maximum = &low, &high
	p[name].Default = json.RawMessage(fmt.Sprint(otherwise))
}

// paged sets the range and the default of a page's size.
func paged(p properties) { p.between("limit", 1, stint.MaxLimit, stint.DefaultLimit) }

// readOnly returns the annotations of a tool that changes nothing.
func readOnly(title string) *sdk.ToolAnnotations {
	no := false
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
}

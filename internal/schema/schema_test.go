package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/schema"
)

const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"],"additionalProperties":false}`

func TestResult(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ schema, message, want, fault string }{
		"as it is":         {person, `{"name": "Ann", "age": 3}`, `{"age":3,"name":"Ann"}`, ""},
		"fenced":           {person, "```json\n{\"name\":\"Ann\"}\n```\n", `{"name":"Ann"}`, ""},
		"fence, no end":    {person, "```\n{\"name\":\"Ann\"}", `{"name":"Ann"}`, ""},
		"a name twice":     {person, `{"name":"a","name":"b<c>"}`, `{"name":"b<c>"}`, ""},
		"a large number":   {`{"type":"integer"}`, `12345678901234567890`, `12345678901234567890`, ""},
		"anything":         {`true`, ` [1, null] `, `[1,null]`, ""},
		"prose":            {person, `Here it is: {}`, "", "it is no JSON value."},
		"prose behind":     {person, `{"name":"Ann"} I hope it helps`, "", "it is no JSON value."},
		"nothing":          {person, ``, "", "it is no JSON value."},
		"a name is wanted": {person, `{}`, "", `required: missing properties: ["name"].`},
		"too long":         {`{}`, `"` + strings.Repeat("x", schema.MaxValue) + `"`, "", "it has 262146 bytes; 262144 are allowed."},
		"too deep":         {both("a"), nested("a", 40), "", "it is nested too deeply for a schema with so many alternatives."},
		"deep enough":      {both("a"), nested("a", 10), nested("a", 10), ""},
		"deep and plain":   {`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`, nested("a", 1000), nested("a", 1000), ""},
	} {
		got, err := schema.Result(json.RawMessage(tt.schema), tt.message)
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if diff := cmp.Diff([]string{tt.want, tt.fault}, []string{string(got), fault}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// both is a schema that comes to each member of a name in two ways.
func both(name string) string {
	one := fmt.Sprintf(`{"properties":{%q:{"$ref":"#"}}}`, name)
	return `{"anyOf":[` + one + `,{"allOf":[` + one + `]}],"type":["object","number"]}`
}

func nested(name string, depth int) string {
	return strings.Repeat(fmt.Sprintf(`{%q:`, name), depth) + "1" + strings.Repeat("}", depth)
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	var doubled strings.Builder // d0 is applied 2^40 times
	for i := range 40 {
		fmt.Fprintf(&doubled, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for name, tt := range map[string]struct{ schema, want string }{
		"no JSON":                   {`{`, "the schema cannot be read: "},
		"a wrong type":              {`{"type":3}`, "the schema cannot be read: "},
		"an unknown type":           {`{"type":"strin"}`, "the schema asks for the type 'strin'; there are string,"},
		"a bad pattern":             {`{"pattern":"("}`, "the schema cannot be used: "},
		"large":                     {`{"description":"` + strings.Repeat("x", schema.MaxSchema) + `"}`, "the schema has 65554 bytes; 65536 are allowed."},
		"from elsewhere":            {`{"$ref":"https://example.com/schema.json"}`, "the schema refers to 'https://example.com/schema.json', and schemas from elsewhere are not fetched."},
		"from a file":               {`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "the schema refers to 'file:///etc/passwd', and"},
		"from beside":               {`{"$id":"https://example.com/a","items":{"$ref":"b"}}`, "the schema refers to 'b', and"},
		"to nothing":                {`{"$ref":"#/$defs/x"}`, "the schema refers to '#/$defs/x', which is not in it."},
		"to itself":                 {`{"$ref":"#"}`, "the schema refers to itself without going into a value."},
		"to itself by another":      {`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "the schema refers to itself without going into a value."},
		"another base":              {`{"$defs":{"a":{"$id":"https://example.com/a"}}}`, "the schema uses $id, $anchor or $dynamicRef within it."},
		"dynamic":                   {`{"properties":{"a":{"$dynamicRef":"#a"}}}`, "the schema uses $id, $anchor or $dynamicRef within it."},
		"alternatives of itself":    {`{"$defs":{` + doubled.String() + `"d40":{}},"$ref":"#/$defs/d0"}`, "the schema has too many alternatives within each other."},
		"deeper than JSON may nest": {strings.Repeat(`{"not":`, 9000) + "{}" + strings.Repeat("}", 9000), ""},
	} {
		err := schema.Check(json.RawMessage(tt.schema))
		switch {
		case tt.want == "":
			continue // whatever it says, it comes back
		case err == nil:
			t.Errorf("%s: no error", name)
		case !strings.HasPrefix(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), "."):
			t.Errorf("%s: %q, want %q …", name, err, tt.want)
		}
		if _, err := schema.Result(json.RawMessage(tt.schema), "{}"); err == nil {
			t.Errorf("%s: a value was held against it", name)
		}
	}
}

func TestUsualSchemasAreUsed(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		person, `{}`, `true`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a~/%":{"type":"string"}},"items":{"$ref":"#/definitions/a~0~1%25"}}`,
		`{"$defs":{"node":{"type":"object","properties":{"left":{"$ref":"#/$defs/node"},"right":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"}`,
		`{"if":{"required":["a"]},"then":{"required":["b"]},"patternProperties":{"^x":{"type":"string"}},"uniqueItems":true}`,
	} {
		if err := schema.Check(json.RawMessage(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func FuzzResult(f *testing.F) {
	for _, s := range []string{person, both("a"), `{"$ref":"#"}`, `{"items":[{"$ref":"#/items/0"}]}`, `{"$defs":{"a":false},"$ref":"#/$defs/a"}`} {
		f.Add(s, nested("a", 5))
	}
	f.Fuzz(func(t *testing.T, s, message string) {
		value, err := schema.Result(json.RawMessage(s), message)
		if err != nil {
			if !strings.HasSuffix(err.Error(), ".") {
				t.Errorf("%q is no sentence", err)
			}
			return
		}
		again, err := schema.Result(json.RawMessage(s), string(value))
		if err != nil || string(again) != string(value) {
			t.Errorf("%s became %s, %v", value, again, err)
		}
	})
}

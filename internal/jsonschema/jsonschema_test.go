package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/jsonschema"
)

const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"],"additionalProperties":false}`

// heavy is the error message for values whose validation would take too long.
const heavy = "it is too large, or nested too deeply, for a schema with so much to compare."

func TestResult(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ schema, message, want, fault string }{
		"plain":             {person, `{"name": "Ann", "age": 3}`, `{"age":3,"name":"Ann"}`, ""},
		"fenced":            {person, "```json\n{\"name\":\"Ann\"}\n```\n", `{"name":"Ann"}`, ""},
		"fence without end": {person, "```\n{\"name\":\"Ann\"}", `{"name":"Ann"}`, ""},
		"duplicate name":    {person, `{"name":"a","name":"b<c>"}`, `{"name":"b<c>"}`, ""},
		"large number":      {`{"type":"integer"}`, `12345678901234567890`, `12345678901234567890`, ""},
		"anything":          {`true`, ` [1, null] `, `[1,null]`, ""},
		"prose":             {person, `Here it is: {}`, "", "it is not a JSON value."},
		"trailing prose":    {person, `{"name":"Ann"} I hope it helps`, "", "it is not a JSON value."},
		"empty":             {person, ``, "", "it is not a JSON value."},
		"missing name":      {person, `{}`, "", `required: missing properties: ["name"].`},
		"too long":          {`{}`, `"` + strings.Repeat("x", jsonschema.MaxValue) + `"`, "", "it has 262146 bytes; 262144 are allowed."},
		"too deep":          {both("a"), nested("a", 40), "", heavy},
		"deep enough":       {both("a"), nested("a", 10), nested("a", 10), ""},
		"deep and plain":    {`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}`, nested("a", 1000), nested("a", 1000), ""},
	} {
		got, err := jsonschema.ParseResult(json.RawMessage(tt.schema), tt.message)
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if diff := cmp.Diff([]string{tt.want, tt.fault}, []string{string(got), fault}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A large value is refused if the schema requires many comparisons for each of its
// parts. A small value is not refused for this reason.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("x", n) }
	list := func(n int, of string) string { return "[" + strings.Repeat(of+",", n-1) + of + "]" }
	var splits []string // arrays of strings; the strings of each array together have 12 letters x
	for i := range 1 << 12 {
		var a strings.Builder
		for bit := range 12 {
			a.WriteString("x")
			if i>>bit&1 == 1 {
				a.WriteString(`","`)
			}
		}
		splits = append(splits, `["`+a.String()+`"]`)
	}
	for name, tt := range map[string]struct{ schema, small, large string }{
		"enum":                   {`{"items":{"enum":` + list(32000, "1") + `}}`, list(100, "1"), list(131000, "2")},
		"const":                  {`{"items":{"const":` + list(32000, "1") + `}}`, list(100, "1"), list(131000, "2")},
		"long enum value":        {`{"items":{"enum":["` + text(60000) + `"]}}`, list(100, `"x"`), list(60000, `"x"`)},
		"required":               {`{"contains":{"required":` + list(16000, `"a"`) + `}}`, list(100, "{}"), list(87000, "{}")},
		"long name":              {`{"contains":{"required":["` + text(65000) + `"]}}`, list(100, "{}"), list(87000, "{}")},
		"dependentRequired":      {`{"items":{"dependentRequired":{"a":` + list(16000, `"a"`) + `}}}`, list(100, `{"a":1}`), list(30000, `{"a":1}`)},
		"patterns":               {`{"items":{"allOf":` + list(900, `{"pattern":"^(x?){20}$"}`) + `}}`, `["x"]`, list(50, `"`+text(5000)+`"`)},
		"name patterns":          {`{"patternProperties":{"^(x?){900}y":{}}}`, `{"x":1}`, `{"` + text(200000) + `":1}`},
		"errors of alternatives": {`{"anyOf":` + list(900, `{"type":"null"}`) + `}`, `[1]`, list(130000, "1")},
		"long error path":        {`{"$defs":{"` + text(20000) + `":{"type":"object","properties":{"a":{"$ref":"#/$defs/` + text(20000) + `"}}}},"$ref":"#/$defs/` + text(20000) + `"}`, nested("a", 10), nested("a", 5000)},
		"unique elements":        {`{"uniqueItems":true}`, list(2, `["x"]`), "[" + strings.Join(splits, ",") + "]"},
	} {
		if len(tt.schema) > jsonschema.MaxSchema || len(tt.large) > jsonschema.MaxValue {
			t.Errorf("%s: a schema of %d bytes, a value of %d", name, len(tt.schema), len(tt.large))
		}
		if _, err := jsonschema.ParseResult(json.RawMessage(tt.schema), tt.small); err != nil && err.Error() == heavy {
			t.Errorf("%s: a small value is too much", name)
		}
		if _, err := jsonschema.ParseResult(json.RawMessage(tt.schema), tt.large); err == nil || err.Error() != heavy {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestOrdinaryResultIsAccepted(t *testing.T) {
	t.Parallel()
	var countries []string
	for i := range 250 {
		countries = append(countries, fmt.Sprintf(`"Country %d"`, i))
	}
	row := `{"name":"` + strings.Repeat("n", 20) + `","country":"Country 249","tags":["a","b"],"score":3.5,"when":"2026-01-02"}`
	s := `{"type":"object","required":["rows"],"properties":{"rows":{"type":"array","uniqueItems":false,"items":{"type":"object",
		"required":["name","country","tags","score"],"additionalProperties":false,"properties":{"name":{"type":"string","minLength":1},
		"country":{"enum":[` + strings.Join(countries, ",") + `]},"tags":{"type":"array","uniqueItems":true,"items":{"type":"string"}},
		"score":{"anyOf":[{"type":"number","minimum":0},{"type":"null"}]},"when":{"type":"string","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}}}}}}`
	value := `{"rows":[` + strings.Repeat(row+",", 999) + row + `]}`
	if _, err := jsonschema.ParseResult(json.RawMessage(s), value); err != nil {
		t.Errorf("%d bytes: %v", len(value), err)
	}
}

// both returns a schema that applies itself twice to the member with the given name.
func both(name string) string {
	one := fmt.Sprintf(`{"properties":{%q:{"$ref":"#"}}}`, name)
	return `{"anyOf":[` + one + `,{"allOf":[` + one + `]}],"type":["object","number"]}`
}

func nested(name string, depth int) string {
	return strings.Repeat(fmt.Sprintf(`{%q:`, name), depth) + "1" + strings.Repeat("}", depth)
}

func TestBadSchemaIsRefused(t *testing.T) {
	t.Parallel()
	var doubled strings.Builder // applies d40 2^40 times
	for i := range 40 {
		fmt.Fprintf(&doubled, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for name, tt := range map[string]struct{ schema, want string }{
		"not JSON":                  {`{`, "the schema cannot be read: "},
		"a wrong type":              {`{"type":3}`, "the schema cannot be read: "},
		"a list":                    {`[]`, "the schema cannot be read: a schema must be an object, true, or false, and not of type array."},
		"a nested string":           {`{"properties":{"a":"integer"}}`, "the schema cannot be read: "},
		"an unknown type":           {`{"type":"strin"}`, "the schema asks for the type 'strin'; there are string,"},
		"a large pattern":           {`{"properties":{"a":{"pattern":"((a?){100}){1,10}b{900}` + strings.Repeat(`(c?){900}`, 200) + `"}}}`, "the pattern '((a?){100}){1,10}b{900}(c?){900}"},
		"a bad pattern":             {`{"pattern":"("}`, "the schema cannot be used: "},
		"large":                     {`{"description":"` + strings.Repeat("x", jsonschema.MaxSchema) + `"}`, "the schema has 65554 bytes; 65536 are allowed."},
		"from elsewhere":            {`{"$ref":"https://example.com/schema.json"}`, "the schema refers to 'https://example.com/schema.json', and schemas from elsewhere are not fetched."},
		"from a file":               {`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "the schema refers to 'file:///etc/passwd', and"},
		"from beside":               {`{"$id":"https://example.com/a","items":{"$ref":"b"}}`, "the schema refers to 'b', and"},
		"to nothing":                {`{"$ref":"#/$defs/x"}`, "the schema refers to '#/$defs/x', which is not in it."},
		"to itself":                 {`{"$ref":"#"}`, "the schema refers to itself without going into a value."},
		"to itself by another":      {`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "the schema refers to itself without going into a value."},
		"another base":              {`{"$defs":{"a":{"$id":"https://example.com/a"}}}`, "the schema uses $id, $anchor or $dynamicRef within it."},
		"dynamic":                   {`{"properties":{"a":{"$dynamicRef":"#a"}}}`, "the schema uses $id, $anchor or $dynamicRef within it."},
		"alternatives of itself":    {`{"$defs":{` + doubled.String() + `"d40":{}},"$ref":"#/$defs/d0"}`, "the schema has too many alternatives within each other."},
		"many alternatives":         {`{"anyOf":[` + strings.Repeat(`{"type":"null"},`, 3999) + `{}]}`, "the schema has more than 1000 parts."},
		"deep":                      {strings.Repeat(`{"items":`, 40) + "{}" + strings.Repeat("}", 40), "the schema is nested more than 32 levels deep."},
		"deeper than JSON may nest": {strings.Repeat(`{"not":`, 9000) + "{}" + strings.Repeat("}", 9000), ""},
	} {
		err := jsonschema.CheckSchema(json.RawMessage(tt.schema))
		switch {
		case tt.want == "":
			continue // any error is fine, if it is returned soon
		case err == nil:
			t.Errorf("%s: no error", name)
		case strings.Contains(err.Error(), "Go "):
			t.Errorf("%s: %q is about Go types", name, err)
		case !strings.HasPrefix(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), "."):
			t.Errorf("%s: %q, want %q …", name, err, tt.want)
		}
		if _, err := jsonschema.ParseResult(json.RawMessage(tt.schema), "{}"); err == nil {
			t.Errorf("%s: a value was validated", name)
		}
	}
}

func TestOrdinarySchemaIsAccepted(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		person, `{}`, `true`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a~/%":{"type":"string"}},"items":{"$ref":"#/definitions/a~0~1%25"}}`,
		`{"$defs":{"node":{"type":"object","properties":{"left":{"$ref":"#/$defs/node"},"right":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"}`,
		`{"if":{"required":["a"]},"then":{"required":["b"]},"patternProperties":{"^x":{"type":"string"}},"uniqueItems":true}`,
		`{"$defs":{"node":{"properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}}},"$ref":"#/$defs/node"}`,
	} {
		if err := jsonschema.CheckSchema(json.RawMessage(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func FuzzResult(f *testing.F) {
	for _, s := range []string{person, both("a"), `{"$ref":"#"}`, `{"items":[{"$ref":"#/items/0"}]}`, `{"$defs":{"a":false},"$ref":"#/$defs/a"}`} {
		f.Add(s, nested("a", 5))
	}
	f.Fuzz(func(t *testing.T, s, message string) {
		value, err := jsonschema.ParseResult(json.RawMessage(s), message)
		if err != nil {
			if !strings.HasSuffix(err.Error(), ".") {
				t.Errorf("%q is not a sentence", err)
			}
			return
		}
		again, err := jsonschema.ParseResult(json.RawMessage(s), string(value))
		if err != nil || string(again) != string(value) {
			t.Errorf("%s became %s, %v", value, again, err)
		}
	})
}

package modeltest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const maxDepth = 16 // maximum levels of nesting in a generated value

// schema is the part of a JSON Schema that is needed to generate a value.
type schema struct {
	Type       json.RawMessage    `json:"type"` // a name or a list of names
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	MinItems   int                `json:"minItems"`
	Minimum    float64            `json:"minimum"`
	Enum       []any              `json:"enum"`
	Const      any                `json:"const"`
	Default    any                `json:"default"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
}

// readSchema returns the supported part of a schema. If the schema is invalid, the
// result is empty.
func readSchema(data json.RawMessage) *schema {
	s := &schema{}
	if json.Unmarshal(data, s) != nil {
		return &schema{}
	}
	return s
}

// kind returns the type of a value that the schema allows. If the schema lists several
// types, kind returns the first type other than null. It converts a single type to lower
// case, because Gemini uses upper case. Without a type, it returns "object" if the
// schema has properties, and "" otherwise.
func (s *schema) kind() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return strings.ToLower(one)
	}
	var many []string
	if json.Unmarshal(s.Type, &many) == nil {
		for _, one := range many {
			if one != "null" {
				return one
			}
		}
	}
	if s.Properties != nil {
		return "object"
	}
	return ""
}

// property returns the schema of the property called name, or nil.
func (s *schema) property(name string) *schema {
	if s == nil {
		return nil
	}
	return s.Properties[name]
}

// fill returns an object, as JSON, with the given fields. The other required fields have
// generated values.
func (s *schema) fill(given map[string]any) json.RawMessage {
	object := s.object(s, maxDepth)
	maps.Copy(object, given)
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // cannot happen, because the object contains only values from JSON
	}
	return data
}

func (s *schema) object(root *schema, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range s.Required {
		object[name] = s.Properties[name].value(root, depth-1)
	}
	return object
}

// value returns a value that the supported part of the schema allows, for final answers
// and tool arguments that a test does not specify. root contains the definitions to which
// $ref refers. depth is the maximum number of levels; deeper values are nil.
func (s *schema) value(root *schema, depth int) any {
	switch {
	case s == nil || depth <= 0:
		return nil
	case s.Ref != "":
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].value(root, depth-1)
	case s.Const != nil:
		return s.Const
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	if choices := slices.Concat(s.AnyOf, s.OneOf); len(choices) > 0 {
		return choices[0].value(root, depth-1)
	}
	switch s.kind() {
	case "string":
		return "text"
	case "integer", "number":
		return max(s.Minimum, 1)
	case "boolean":
		return false
	case "array":
		list := make([]any, min(max(s.MinItems, 0), 8))
		for i := range list {
			list[i] = s.Items.value(root, depth-1)
		}
		return list
	case "object":
		return s.object(root, depth)
	}
	return nil
}

package jsonschema

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Limits of a schema.
const (
	maxSchemas       = 1000    // sub-schemas in a schema, and sub-schemas that apply to one value with references expanded
	maxDepth         = 32      // levels of nested sub-schemas
	maxPatternStates = 100_000 // states of the patterns of one sub-schema, with repetitions expanded
)

// types are the valid values of the keyword "type".
var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

var errTooManyAlternatives = sentence("the schema has too many alternatives within each other.")

// index contains the properties of each sub-schema that are needed to check the limits.
type index struct {
	at   map[string]*jsonschema.Schema // by JSON pointer
	info map[*jsonschema.Schema]*schemaInfo
}

type schemaInfo struct {
	pointerLen int                  // length of the JSON pointer, which error messages contain
	work       int                  // work of one application that does not depend on the value
	states     int                  // states of the patterns; each state may examine each character
	applied    []*jsonschema.Schema // sub-schemas that apply to the same value
	total      int                  // number of schemas that apply to the same value; 0 if not yet counted
	counting   bool                 // count is computing total
}

// newIndex returns the index of a schema. It returns an error if the schema exceeds a
// limit, refers to another document, or refers to itself endlessly.
func newIndex(root *jsonschema.Schema) (*index, error) {
	x := &index{at: map[string]*jsonschema.Schema{}, info: map[*jsonschema.Schema]*schemaInfo{}}
	if err := x.add("", root, 0); err != nil {
		return nil, err
	}
	for _, pointer := range slices.Sorted(maps.Keys(x.at)) {
		if err := x.link(x.at[pointer]); err != nil {
			return nil, err
		}
	}
	for _, pointer := range slices.Sorted(maps.Keys(x.at)) {
		if _, err := x.count(x.at[pointer]); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// add adds a schema and its sub-schemas to the index. pointer is the JSON pointer of
// the schema.
func (x *index) add(pointer string, s *jsonschema.Schema, depth int) error {
	if len(x.at) >= maxSchemas {
		return sentence("the schema has more than %d parts.", maxSchemas)
	}
	if depth > maxDepth {
		return sentence("the schema is nested more than %d levels deep.", maxDepth)
	}
	if err := checkKeywords(s, depth == 0); err != nil {
		return err
	}
	states, err := patternStates(s)
	if err != nil {
		return err
	}
	x.at[pointer] = s
	x.info[s] = &schemaInfo{pointerLen: len(pointer), work: ownWork(s), states: states}
	for _, c := range children(s) {
		if err := x.add(pointer+c.pointer, c.schema, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkKeywords returns an error for references to other documents, for IDs and anchors
// in sub-schemas, and for unknown types.
func checkKeywords(s *jsonschema.Schema, isRoot bool) error {
	switch {
	case !isRoot && s.ID != "", s.Anchor != "", s.DynamicAnchor != "", s.DynamicRef != "":
		return sentence("the schema uses $id, $anchor or $dynamicRef within it. Refer to its parts with \"$ref\": \"#/$defs/NAME\".")
	case s.Ref != "" && s.Ref[0] != '#':
		return sentence("the schema refers to '%s', and schemas from elsewhere are not fetched. Put it under $defs and refer to it with \"$ref\": \"#/$defs/NAME\".", clip(s.Ref))
	}
	for _, name := range slices.Concat(s.Types, []string{s.Type}) {
		if name != "" && !slices.Contains(types, name) {
			return sentence("the schema asks for the type '%s'; there are %s.", clip(name), strings.Join(types, ", "))
		}
	}
	return nil
}

// ownWork returns the work of the keywords that compare a value with constants, in
// units of maxWork.
func ownWork(s *jsonschema.Schema) int {
	raw, err := json.Marshal([]any{s.Enum, s.Const, s.Required, s.Types, s.DependentRequired, s.DependencyStrings})
	if err != nil {
		return maxWork // not reached: values that were decoded from JSON can be encoded
	}
	return 1 + (len(raw)+8*len(s.Properties))/64
}

// link sets the field applied of s: the sub-schemas that s applies to the same value, in
// place or by reference.
func (x *index) link(s *jsonschema.Schema) error {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Not, s.If, s.Then, s.Else},
		slices.Collect(maps.Values(s.DependentSchemas)), slices.Collect(maps.Values(s.DependencySchemas)))
	if s.Ref != "" {
		pointer, err := url.PathUnescape(s.Ref[1:])
		target := x.at[pointer]
		if err != nil || target == nil {
			return sentence("the schema refers to '%s', which is not in it.", clip(s.Ref))
		}
		list = append(list, target)
	}
	x.info[s].applied = slices.DeleteFunc(list, func(s *jsonschema.Schema) bool { return s == nil })
	return nil
}

// count returns the number of schemas that apply to a value if s applies to it: s, and
// recursively all schemas that s applies to the same value.
func (x *index) count(s *jsonschema.Schema) (int, error) {
	in := x.info[s]
	switch {
	case in.total > 0:
		return in.total, nil
	case in.counting:
		return 0, sentence("the schema refers to itself without going into a value.")
	}
	in.counting = true
	total := 1
	for _, c := range in.applied {
		n, err := x.count(c)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxSchemas {
			return 0, errTooManyAlternatives
		}
	}
	in.total, in.counting = total, false
	return total, nil
}

// patternStates returns the number of states of the regular expressions in a schema,
// without its sub-schemas.
func patternStates(s *jsonschema.Schema) (sum int, err error) {
	for _, p := range append(slices.Collect(maps.Keys(s.PatternProperties)), s.Pattern) {
		re, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			continue // Resolve reports the error
		}
		if sum += states(re); sum > maxPatternStates {
			return 0, sentence("the pattern '%s' is too large, with its repetitions written out.", clip(p))
		}
	}
	return sum, nil
}

func states(re *syntax.Regexp) int {
	sum := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		sum = min(sum+states(sub), maxPatternStates+1)
	}
	if re.Op == syntax.OpRepeat {
		sum *= max(re.Min, re.Max) + 1
	}
	return min(sum, maxPatternStates+1)
}

// child is a direct sub-schema. pointer is its JSON pointer relative to the parent.
type child struct {
	pointer string
	schema  *jsonschema.Schema
}

func children(s *jsonschema.Schema) (out []child) {
	one := func(keyword string, c *jsonschema.Schema) {
		if c != nil {
			out = append(out, child{"/" + keyword, c})
		}
	}
	for keyword, c := range map[string]*jsonschema.Schema{
		"items": s.Items, "additionalItems": s.AdditionalItems, "contains": s.Contains, "unevaluatedItems": s.UnevaluatedItems,
		"additionalProperties": s.AdditionalProperties, "propertyNames": s.PropertyNames, "unevaluatedProperties": s.UnevaluatedProperties,
		"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "contentSchema": s.ContentSchema,
	} {
		one(keyword, c)
	}
	for keyword, list := range map[string][]*jsonschema.Schema{
		"prefixItems": s.PrefixItems, "items": s.ItemsArray, "allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf,
	} {
		for i, c := range list {
			one(keyword+"/"+strconv.Itoa(i), c)
		}
	}
	for keyword, m := range map[string]map[string]*jsonschema.Schema{
		"$defs": s.Defs, "definitions": s.Definitions, "properties": s.Properties, "patternProperties": s.PatternProperties,
		"dependentSchemas": s.DependentSchemas, "dependencies": s.DependencySchemas,
	} {
		for name, c := range m {
			one(keyword+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), c)
		}
	}
	slices.SortFunc(out, func(a, b child) int { return cmp.Compare(a.pointer, b.pointer) })
	return out
}

// clip returns s, cut to 100 characters.
func clip(s string) string {
	if r := []rune(s); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return s
}

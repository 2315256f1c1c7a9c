package jsonschema

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxCost bounds how often parts of a schema are applied to parts of a value.
// What takes longer than that alone counts more: what is compared, matched or
// written into an error, which alternatives do even where another one fits.
const maxCost = 10_000_000

// cost says how the work of validating grows: how each part of a value is
// looked at, and in how many ways its members are come to.
type cost struct {
	place
	fan   float64
	steps float64 // of the patterns that read a character
	trail float64 // bytes written for each level of an error's place, as often as they are
}

// place is what is done where a value is.
type place struct {
	here   float64 // schemas that look at it
	weight float64 // of what they do with it
	unique float64 // those that compare its elements with each other
}

// of bounds the work for a value.
func (c cost) of(value any) float64 {
	sum, _ := c.part(value, 1, 1)
	return sum
}

// part bounds the work for a part of a value that is come to in so many ways,
// and tells how long it is when an error shows it.
func (c cost) part(value any, ways, depth float64) (sum, size float64) {
	if ways > maxCost {
		return ways, 0
	}
	size = 8
	leaf := true
	add := func(of any) {
		more, length := c.part(of, ways*c.fan, depth+1)
		sum, size, leaf = sum+more, size+length, false
	}
	switch v := value.(type) {
	case string:
		size += float64(len(v))
		sum += ways * c.steps / 16 * size
	case []any:
		composite := 0.0 // the others are told apart by their hashes
		for _, e := range v {
			switch e.(type) {
			case []any, map[string]any:
				composite++
			}
			add(e)
		}
		sum += ways * c.unique * composite * composite
	case map[string]any:
		for name, e := range v {
			length := float64(8 + len(name)) // a name is a part, too
			sum += ways * c.fan * (c.weight + (c.here/8+c.steps/16)*length)
			size += length
			add(e)
		}
	}
	if leaf { // the errors with the longest way begin here
		sum += ways * c.trail * depth * depth / 64
	}
	return sum + ways*(c.weight+c.here/8*size), size
}

// reach is what is applied to a value where a schema is, by way of references
// and alternatives, however often.
type reach struct {
	place
	names map[string]float64 // ways to the member of a name
	any   float64            // ways to each member, beside
	items float64            // ways to an element
	steps float64            // of patterns
	chain float64            // schemas that apply each other, at most
	path  float64            // bytes that tell their places
}

func (r *reach) add(o reach) {
	r.here += o.here
	r.weight += o.weight
	r.unique += o.unique
	r.steps += o.steps
	r.any += o.any
	r.items += o.items
	for name, n := range o.names {
		if r.names == nil {
			r.names = map[string]float64{}
		}
		r.names[name] += n
	}
}

func (r *reach) fan() float64 {
	most := 0.0
	for _, n := range r.names {
		most = max(most, n)
	}
	return max(most+r.any, r.items, 1)
}

// counting finds the cost of a schema.
type counting struct {
	at     map[string]*jsonschema.Schema // by JSON pointer
	length map[*jsonschema.Schema]int    // of its pointer
	known  map[*jsonschema.Schema]reach
	open   map[*jsonschema.Schema]bool
	merged int // names in all merges
	cost   cost
}

// maxMerged bounds what counting costs.
const maxMerged = 4_000_000

func costOf(root *jsonschema.Schema) (cost, error) {
	c := &counting{at: map[string]*jsonschema.Schema{}, length: map[*jsonschema.Schema]int{}, known: map[*jsonschema.Schema]reach{}, open: map[*jsonschema.Schema]bool{}}
	if err := c.index("", root); err != nil {
		return cost{}, err
	}
	for _, pointer := range slices.Sorted(maps.Keys(c.at)) {
		r, err := c.reach(c.at[pointer])
		if err != nil {
			return cost{}, err
		}
		c.cost.atLeast(r)
	}
	if c.cost.here > maxCost {
		return cost{}, sentence("the schema has too many alternatives within each other.")
	}
	return c.cost, nil
}

func (c *cost) atLeast(r reach) {
	c.here, c.weight, c.unique = max(c.here, r.here), max(c.weight, r.weight), max(c.unique, r.unique)
	c.fan, c.steps, c.trail = max(c.fan, r.fan()), max(c.steps, r.steps), max(c.trail, r.chain*r.path)
}

// types are those of JSON, as schemas name them.
var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// index notes a schema and all in it, and refuses what reads from elsewhere.
func (c *counting) index(pointer string, s *jsonschema.Schema) error {
	c.at[pointer], c.length[s] = s, len(pointer)
	switch {
	case pointer != "" && s.ID != "", s.Anchor != "", s.DynamicAnchor != "", s.DynamicRef != "":
		return sentence("the schema uses $id, $anchor or $dynamicRef within it. Refer to its parts with \"$ref\": \"#/$defs/NAME\".")
	case s.Ref != "" && s.Ref[0] != '#':
		return sentence("the schema refers to '%s', and schemas from elsewhere are not fetched. Put it under $defs and refer to it with \"$ref\": \"#/$defs/NAME\".", clip(s.Ref))
	}
	for _, name := range slices.Concat(s.Types, []string{s.Type}) {
		if name != "" && !slices.Contains(types, name) {
			return sentence("the schema asks for the type '%s'; there are %s.", clip(name), strings.Join(types, ", "))
		}
	}
	for _, child := range children(s) {
		if err := c.index(pointer+child.pointer, child.schema); err != nil {
			return err
		}
	}
	return nil
}

// reach counts what is applied where s is.
func (c *counting) reach(s *jsonschema.Schema) (reach, error) {
	if r, ok := c.known[s]; ok {
		return r, nil
	}
	if c.open[s] {
		return reach{}, sentence("the schema refers to itself without going into a value.")
	}
	c.open[s] = true
	defer delete(c.open, s)
	r, err := own(s)
	if err != nil {
		return r, err
	}
	applied, err := c.applied(s)
	if err != nil {
		return r, err
	}
	var chain, path float64
	for _, child := range applied {
		more, err := c.reach(child)
		if err != nil {
			return r, err
		}
		if c.merged += len(more.names) + 1; c.merged > maxMerged {
			return r, sentence("the schema has too many alternatives within each other.")
		}
		r.add(more)
		chain, path = max(chain, more.chain), max(path, more.path)
	}
	r.chain, r.path = chain+1, path+float64(c.length[s]+len("validating : "))
	c.known[s] = r
	return r, nil
}

// own is what a schema itself does: it looks at a value, and goes into it.
func own(s *jsonschema.Schema) (reach, error) {
	steps, err := stepsOf(s)
	if err != nil {
		return reach{}, err
	}
	r := reach{place: place{here: 1, weight: weigh(s)}, steps: steps, any: float64(len(s.PatternProperties))}
	if s.UniqueItems {
		r.unique = 1
	}
	ways := 1.0
	if s.AdditionalProperties != nil {
		ways = 0 // it is for the members that are not named
	}
	r.names = make(map[string]float64, len(s.Properties))
	for name := range s.Properties {
		r.names[name] = ways
	}
	for _, all := range []*jsonschema.Schema{s.AdditionalProperties, s.UnevaluatedProperties, s.PropertyNames} {
		if all != nil {
			r.any++
		}
	}
	for _, all := range []*jsonschema.Schema{s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems} {
		if all != nil {
			r.items++
		}
	}
	if len(s.PrefixItems)+len(s.ItemsArray) > 0 {
		r.items++
	}
	return r, nil
}

// applied are the schemas that s applies to the very value it is applied to.
func (c *counting) applied(s *jsonschema.Schema) ([]*jsonschema.Schema, error) {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Not, s.If, s.Then, s.Else},
		slices.Collect(maps.Values(s.DependentSchemas)), slices.Collect(maps.Values(s.DependencySchemas)))
	if s.Ref != "" {
		to, err := url.PathUnescape(s.Ref[1:])
		target := c.at[to]
		if err != nil || target == nil {
			return nil, sentence("the schema refers to '%s', which is not in it.", clip(s.Ref))
		}
		list = append(list, target)
	}
	return slices.DeleteFunc(list, func(s *jsonschema.Schema) bool { return s == nil }), nil
}

// child is a schema within another.
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

// clip shortens what a message repeats.
func clip(s string) string {
	if r := []rune(s); len(r) > 100 {
		return string(r[:99]) + "…"
	}
	return s
}

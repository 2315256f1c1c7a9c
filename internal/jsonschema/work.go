package jsonschema

import "github.com/google/jsonschema-go/jsonschema"

const (
	// maxWork is the maximum work of validating one value. One unit is roughly the
	// application of one schema to one small value.
	maxWork = 10_000_000
	// maxFrames is the maximum depth of the recursion of budget.apply.
	maxFrames = 50_000
)

// value describes a JSON value by the sizes on which the work of validation depends.
type value struct {
	size       int // approximate length in bytes of the value in an error message
	text       int // length in bytes, if the value is a string
	composites int // number of elements that are arrays or objects, if the value is an array
	items      []*value
	members    map[string]*value
}

func measure(v any) *value {
	out := &value{size: 8}
	switch v := v.(type) {
	case string:
		out.text = len(v)
		out.size += len(v)
	case []any:
		for _, e := range v {
			item := measure(e)
			out.items = append(out.items, item)
			out.size += item.size
			switch e.(type) {
			case []any, map[string]any:
				out.composites++
			}
		}
	case map[string]any:
		out.members = make(map[string]*value, len(v))
		for name, e := range v {
			member := measure(e)
			out.members[name] = member
			out.size += 8 + len(name) + member.size
		}
	}
	return out
}

// budget counts the work of applying schemas to a value and its parts, under the
// assumption that validation tries every alternative. left is the remaining work; it is
// negative if the work exceeds maxWork.
type budget struct {
	*index
	left int
}

// isTooMuch reports whether validating v against root could exceed maxWork.
func (x *index) isTooMuch(root *jsonschema.Schema, v any) bool {
	b := &budget{x, maxWork}
	b.apply(root, measure(v), 1, 0)
	return b.left < 0
}

// apply subtracts the work of applying s to v and its parts. depth is the depth of the
// recursion, 1 for the root. path is the total length of the prefixes "validating POINTER: "
// that the enclosing applications add to an error message.
func (b *budget) apply(s *jsonschema.Schema, v *value, depth, path int) {
	if depth > maxFrames {
		b.left = -1
	}
	in := b.info[s]
	path += in.pointerLen + len("validating : ")
	b.left -= in.work + v.size/8 + in.states*v.text/16 + len(v.items) + len(v.members)
	if s.UniqueItems {
		b.left -= v.composites * v.composites // each pair is compared if the hashes of the elements collide
	}
	before := b.left
	for _, c := range in.applied {
		b.next(c, v, depth, path)
	}
	for name, member := range v.members {
		b.member(s, name, member, depth, path)
	}
	for i, item := range v.items {
		b.item(s, i, item, depth, path)
	}
	if b.left == before { // an innermost schema: an error in it is wrapped once at each level
		b.left -= path * depth / 64
	}
}

func (b *budget) next(s *jsonschema.Schema, v *value, depth, path int) {
	if s != nil && b.left >= 0 {
		b.apply(s, v, depth+1, path)
	}
}

func (b *budget) member(s *jsonschema.Schema, name string, v *value, depth, path int) {
	if p := s.Properties[name]; p != nil {
		b.next(p, v, depth, path)
	} else {
		b.next(s.AdditionalProperties, v, depth, path)
	}
	for _, p := range s.PatternProperties {
		b.left -= b.info[s].states * len(name) / 16
		b.next(p, v, depth, path)
	}
	b.next(s.UnevaluatedProperties, v, depth, path)
	b.next(s.PropertyNames, &value{size: 8 + len(name), text: len(name)}, depth, path)
}

func (b *budget) item(s *jsonschema.Schema, i int, v *value, depth, path int) {
	switch {
	case i < len(s.PrefixItems):
		b.next(s.PrefixItems[i], v, depth, path)
	case i < len(s.ItemsArray):
		b.next(s.ItemsArray[i], v, depth, path)
	default:
		b.next(s.Items, v, depth, path)
		b.next(s.AdditionalItems, v, depth, path)
	}
	b.next(s.Contains, v, depth, path)
	b.next(s.UnevaluatedItems, v, depth, path)
}

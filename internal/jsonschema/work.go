package jsonschema

import "github.com/google/jsonschema-go/jsonschema"

const (
	// maxWork bounds the work of validating one value. One unit is about the
	// application of one schema to one small value.
	maxWork = 10_000_000
	// maxFrames bounds the recursion of the count.
	maxFrames = 50_000
)

// value is a JSON value with the sizes that the work depends on.
type value struct {
	size       int // bytes, about, as an error message shows the value
	text       int // bytes of a string
	composites int // elements of an array that are arrays or objects
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

// budget counts how often schemas are applied to parts of a value, as validating
// would apply them if every alternative were tried.
type budget struct {
	*index
	left int
}

// isTooMuch reports whether validating v would exceed maxWork.
func (x *index) isTooMuch(root *jsonschema.Schema, v any) bool {
	b := &budget{x, maxWork}
	b.apply(root, measure(v), 1, 0)
	return b.left < 0
}

// apply counts the application of s to v. depth is the number of schemas above
// it, path the length of their pointers.
func (b *budget) apply(s *jsonschema.Schema, v *value, depth, path int) {
	if depth > maxFrames {
		b.left = -1
	}
	in := b.info[s]
	path += in.pointerLen + len("validating : ")
	b.left -= in.work + v.size/8 + in.states*v.text/16 + len(v.items) + len(v.members)
	if s.UniqueItems {
		b.left -= v.composites * v.composites // their hashes may be equal
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
	if b.left == before { // an error that begins here is wrapped once at each level
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

package jsonschema

import (
	"maps"
	"regexp/syntax"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// weigh counts what a schema does with one value: 1, and more for what it
// compares it with.
func weigh(s *jsonschema.Schema) float64 {
	sum := 1.0
	for _, v := range s.Enum {
		sum += parts(v)
	}
	if s.Const != nil {
		sum += parts(*s.Const)
	}
	sum += names(s.Required) + names(s.Types) + names(slices.Collect(maps.Keys(s.Properties)))
	for _, m := range []map[string][]string{s.DependentRequired, s.DependencyStrings} {
		for name, needed := range m {
			sum += names([]string{name}) + names(needed)
		}
	}
	return sum
}

// names counts names that are looked up, and written where they are missing.
func names(list []string) (sum float64) {
	for _, name := range list {
		sum += (32 + float64(len(name))) / 64
	}
	return sum
}

// parts counts the parts of a value that another is compared with, four of
// which take as long as a schema does that compares nothing.
func parts(value any) float64 {
	sum := 0.25
	switch v := value.(type) {
	case string:
		sum += float64(len(v)) / 128
	case []any:
		for _, e := range v {
			sum += parts(e)
		}
	case map[string]any:
		for name, e := range v {
			sum += parts(name) + parts(e)
		}
	}
	return sum
}

// maxSteps bounds the memory that the patterns of one schema take.
const maxSteps = 100_000

// stepsOf counts the states of a schema's patterns, each of which may look at
// each character.
func stepsOf(s *jsonschema.Schema) (float64, error) {
	patterns := slices.Collect(maps.Keys(s.PatternProperties))
	if s.Pattern != "" {
		patterns = append(patterns, s.Pattern)
	}
	sum := 0.0
	for _, p := range patterns {
		re, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			continue // which is said where it is used
		}
		if sum += steps(re); sum > maxSteps {
			return 0, sentence("the pattern '%s' is too large, with its repetitions written out.", clip(p))
		}
	}
	return sum, nil
}

// steps counts the states of a pattern.
func steps(re *syntax.Regexp) float64 {
	sum := 1.0
	for _, sub := range re.Sub {
		sum += steps(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		sum += float64(len(re.Rune))
	case syntax.OpCharClass:
		sum += float64(len(re.Rune)) / 8
	case syntax.OpRepeat:
		sum *= float64(max(re.Min, re.Max) + 1)
	}
	return sum
}

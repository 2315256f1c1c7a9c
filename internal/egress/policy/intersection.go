package policy

import (
	"slices"
	"strings"
)

// Intersect returns rules that match exactly the destinations that both a rule of a and
// a rule of b match. It omits rules that another one covers.
func Intersect(a, b []Rule) []Rule {
	var all []Rule
	for _, x := range a {
		for _, y := range b {
			if r, ok := x.intersect(y); ok && !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r Rule) bool {
		return slices.ContainsFunc(all, func(other Rule) bool { return other != r && other.covers(r) })
	})
}

// Covers reports whether a single rule of rules matches every destination that r matches.
func Covers(rules []Rule, r Rule) bool {
	return slices.ContainsFunc(rules, func(other Rule) bool { return other.covers(r) })
}

func (r Rule) covers(other Rule) bool {
	both, ok := r.intersect(other)
	return ok && both == other
}

// intersect returns the rule that matches exactly the destinations that both rules
// match. If there are none, ok is false.
func (r Rule) intersect(other Rule) (both Rule, ok bool) {
	port := r.Port
	switch {
	case port == 0:
		port = other.Port
	case other.Port != 0 && other.Port != port:
		return Rule{}, false
	}
	both, ok = r.narrower(other)
	both.Port = port
	return both, ok
}

// narrower returns the rule whose hosts the other rule matches too. Two rules have either
// such a rule or no host in common.
func (r Rule) narrower(other Rule) (Rule, bool) {
	switch {
	case (r.Domain == "") != (other.Domain == ""):
		return Rule{}, false
	case r.Domain == "" && r.Prefix.Overlaps(other.Prefix):
		if r.Prefix.Bits() > other.Prefix.Bits() {
			return r, true
		}
		return other, true
	case r.Domain == "":
		return Rule{}, false
	case r.includesDomain(other):
		return other, true
	case other.includesDomain(r):
		return r, true
	}
	return Rule{}, false
}

// includesDomain reports whether r matches every name that other matches. Both are rules
// for domains. The ports are ignored.
func (r Rule) includesDomain(other Rule) bool {
	switch {
	case !r.Wildcard:
		return !other.Wildcard && r.Domain == other.Domain
	case other.Wildcard && r.Domain == other.Domain:
		return true
	}
	return strings.HasSuffix(other.Domain, "."+r.Domain)
}

package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress/policy"
)

func parseRules(t *testing.T, text string) []policy.Rule {
	t.Helper()
	var rules []policy.Rule
	for word := range strings.FieldsSeq(text) {
		r, err := policy.ParseRule(word)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func join(rules []policy.Rule) string {
	var words []string
	for _, r := range rules {
		words = append(words, r.String())
	}
	return strings.Join(words, " ")
}

func TestIntersect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"api.example.com", "api.example.com", "api.example.com"},
		{"API.example.com.", "api.Example.com", "api.example.com"},
		{"api.example.com", "www.example.com", ""},
		{"api.example.com", "", ""},
		{"*.example.com", "api.example.com", "api.example.com"},
		{"*.example.com", "a.b.example.com", "a.b.example.com"},
		{"*.example.com", "example.com", ""},
		{"*.example.com", "badexample.com", ""},
		{"*.example.com", "example.com.evil.test", ""},
		{"*.example.com", "*.example.com", "*.example.com"},
		{"*.example.com", "*.eu.example.com", "*.eu.example.com"},
		{"*.example.com", "*.com", "*.example.com"},
		{"*.eu.example.com", "*.us.example.com", ""},
		{"*.example.com", "*.ample.com", ""},
		{"api.example.com:443", "api.example.com", "api.example.com:443"},
		{"api.example.com:443", "api.example.com:8443", ""},
		{"*.example.com:443", "api.example.com", "api.example.com:443"},
		{"*.example.com:443", "*.eu.example.com:443", "*.eu.example.com:443"},
		{"a.test b.test", "b.test c.test", "b.test"},
		{"*.a.test api.a.test", "api.a.test *.a.test", "*.a.test"},
		{"*.a.test b.test:443", "x.a.test:1 y.a.test b.test", "x.a.test:1 y.a.test b.test:443"},
		{"10.0.0.0/8", "10.1.0.0/16", "10.1.0.0/16"},
		{"10.1.2.3", "10.0.0.0/8:443", "10.1.2.3:443"},
		{"10.0.0.0/8", "192.168.0.0/16", ""},
		{"10.0.0.0/8", "*.example.com", ""},
	} {
		for _, order := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got := join(policy.Intersect(parseRules(t, order[0]), parseRules(t, order[1])))
			if order[0] != c.a && strings.Contains(c.want, " ") {
				continue // only the order of the result differs
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%q and %q (-want +got):\n%s", order[0], order[1], d)
			}
		}
	}
}

// TestIntersectMatchesBoth checks that an intersection matches a destination exactly if
// both lists match it.
func TestIntersectMatchesBoth(t *testing.T) {
	t.Parallel()
	lists := []string{
		"com", "example.com", "*.com", "*.example.com", "*.example.com:443", "a.example.com", "a.example.com:443", "a.example.com:80",
		"*.a.example.com", "b.a.example.com", "*.b.a.example.com:80", "xexample.com", "a.example.com *.b.a.example.com", "*.com:80 example.com",
	}
	hosts := []string{"com", "example.com", "a.example.com", "b.a.example.com", "c.b.a.example.com", "xexample.com", "z.xexample.com", "org"}
	matches := func(rules []policy.Rule, host string, port uint16) bool {
		for _, r := range rules {
			if r.MatchName(host, port) {
				return true
			}
		}
		return false
	}
	for _, a := range lists {
		for _, b := range lists {
			x, y := parseRules(t, a), parseRules(t, b)
			both := policy.Intersect(x, y)
			for _, host := range hosts {
				for _, port := range []uint16{80, 443, 8443} {
					want := matches(x, host, port) && matches(y, host, port)
					if got := matches(both, host, port); got != want {
						t.Errorf("%q and %q gave %q, which matches %s:%d: %v", a, b, join(both), host, port, got)
					}
				}
			}
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules, rule string
		want        bool
	}{
		{"*.example.com", "api.example.com:443", true},
		{"api.example.com:443", "api.example.com", false},
		{"api.example.com", "*.example.com", false},
		{"a.test *.b.test", "*.c.b.test", true},
		{"", "a.test", false},
	} {
		if got := policy.Covers(parseRules(t, c.rules), parseRules(t, c.rule)[0]); got != c.want {
			t.Errorf("%q covers %q: %v", c.rules, c.rule, got)
		}
	}
}

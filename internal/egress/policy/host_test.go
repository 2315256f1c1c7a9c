package policy_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestHostMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, host string
		port          uint16
		want          bool
	}{
		{"example.com", "example.com", 443, true},
		{"Example.COM", "eXample.com.", 443, true},
		{"example.com.", "example.com", 443, true},
		{"example.com", "a.example.com", 443, false},
		{"example.com:443", "example.com", 443, true},
		{"example.com:443", "example.com", 80, false},
		{"*.example.com", "a.b.example.com", 80, true},
		{"*.example.com", "example.com", 80, false},
		{"*.example.com", "badexample.com", 80, false},
		{"*.example.com:8080", "a.example.com", 8080, true},
		{"*.example.com:8080", "a.example.com", 80, false},
		{"*", "example.com", 80, false},
		{"*.", "example.com", 80, false},
		{"*.com", "example.com", 80, true},
		{"", "example.com", 80, false},
		{"", "", 80, false},
		{"example.com:", "example.com", 80, false},
		{"example.com:0", "example.com", 80, false},
		{"example.com:x", "example.com", 80, false},
		{"example.com:99999", "example.com", 80, false},
		{"example.com", "example.com\n", 80, false},
		{"192.0.2.1", "192.0.2.1", 80, true},
		{"192.0.2.1", "::ffff:192.0.2.1", 80, true},
		{"2001:db8::1", "2001:db8:0::1", 80, true},
		{"[2001:db8::1]:443", "2001:db8::1", 443, true},
		{"[2001:db8::1]:443", "2001:db8::1", 80, false},
		{"[2001:db8::1", "2001:db8::1", 80, false},
	} {
		if got := policy.HostMatches([]string{"nothing.test", c.pattern}, c.host, c.port); got != c.want {
			t.Errorf("HostMatches(%q, %q, %d) = %v", c.pattern, c.host, c.port, got)
		}
	}
}

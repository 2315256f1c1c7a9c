package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/egress/policy"
)

func TestParseRule(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"example.com":               "example.com",
		"Example.COM.":              "example.com",
		"EXAMPLE.com.:8443":         "example.com:8443",
		"*.example.com":             "*.example.com",
		"*.Example.com:443":         "*.example.com:443",
		"xn--bcher-kva.example":     "xn--bcher-kva.example",
		"my_bucket.s3.example":      "my_bucket.s3.example",
		"intranet":                  "intranet",
		"1password.com":             "1password.com",
		"10.0.0.0/8":                "10.0.0.0/8",
		"10.1.2.3":                  "10.1.2.3",
		"10.1.2.3/32":               "10.1.2.3",
		"10.1.2.3:5432":             "10.1.2.3:5432",
		"10.0.0.0/8:5432":           "10.0.0.0/8:5432",
		"fd00::/8":                  "fd00::/8",
		"2001:DB8::1":               "2001:db8::1",
		"[2001:db8::1]":             "2001:db8::1",
		"[2001:db8::1]:443":         "[2001:db8::1]:443",
		"[fd00::/8]:443":            "[fd00::/8]:443",
		"0.0.0.0/0":                 "0.0.0.0/0",
		"host.stint.internal:11434": "host.stint.internal:11434",
	} {
		r, err := policy.ParseRule(in)
		if err != nil || r.String() != want {
			t.Errorf("%q is %q, %v, want %q", in, r, err, want)
		}
		again, err := policy.ParseRule(r.String())
		if err != nil || again != r {
			t.Errorf("%q is parsed again as %+v, %v, want %+v", r, again, err, r)
		}
	}
}

func TestParseRuleErrors(t *testing.T) {
	t.Parallel()
	for in, message := range map[string]string{
		"":                         "may not be empty",
		"*":                        "'*' in the wrong place",
		"*.":                       "is not a domain",
		"*.*.com":                  "'*' in the wrong place",
		"a.*.com":                  "'*' in the wrong place",
		"*example.com":             "'*' in the wrong place",
		"example..com":             "is not a domain",
		".example.com":             "is not a domain",
		"-a.example":               "is not a domain",
		"exa mple.com":             "is not a domain",
		"https://example.com":      "is a URL",
		"example.com/path":         "is not an address range",
		"user@example.com":         "is not a domain",
		"bücher.example":           "xn--",
		"example.com:":             "not have a valid port",
		"example.com:0":            "not have a valid port",
		"example.com:065":          "not have a valid port",
		"example.com:+80":          "not have a valid port",
		"example.com:65536":        "not have a valid port",
		"example.com:http":         "not have a valid port",
		"[example.com]:80":         "brackets",
		"[::1":                     "brackets",
		"[::1]80":                  "brackets",
		"::1:::":                   "is not an address range",
		"fe80::1%eth0":             "is not a plain address",
		"::ffff:10.0.0.1":          "is not a plain address",
		"::ffff:10.0.0.0/104":      "IPv4-mapped range",
		"10.0.0.1/8":               "write 10.0.0.0/8",
		"10.0.0.0/33":              "is not an address range",
		"2130706433":               "neither a domain nor an address",
		"0x7f.1":                   "neither a domain nor an address",
		"127.0x1":                  "neither a domain nor an address",
		"127.0.0.0x":               "neither a domain nor an address",
		"017700000001":             "neither a domain nor an address",
		"127.1":                    "neither a domain nor an address",
		"010.0.0.1":                "neither a domain nor an address",
		"1.2.3.4.5":                "neither a domain nor an address",
		"localhost":                "host.stint.internal:PORT",
		"a.localhost:80":           "host.stint.internal:PORT",
		"host.stint.internal":      "needs the port",
		"*.stint.internal:80":      "cannot be allowed",
		"*.host.stint.internal:80": "cannot be allowed",
		"proxy.stint.internal:1":   "cannot be allowed",
		strings.Repeat("a.", 130):  "253",
	} {
		r, err := policy.ParseRule(in)
		if err == nil || !strings.Contains(err.Error(), message) || !strings.HasSuffix(err.Error(), ".") {
			t.Errorf("%q is %+v, %v, want an error with %q", in, r, err, message)
		}
	}
}

func TestRuleMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, target string
		want         bool
	}{
		{"example.com", "example.com:443", true},
		{"example.com", "www.example.com:443", false},
		{"example.com", "notexample.com:443", false},
		{"example.com:443", "example.com:443", true},
		{"example.com:443", "example.com:80", false},
		{"*.example.com", "www.example.com:1", true},
		{"*.example.com", "a.b.example.com:1", true},
		{"*.example.com", "example.com:1", false},
		{"*.example.com", ".example.com:1", false},
		{"*.example.com", "wwwexample.com:1", false},
		{"*.example.com", "www.example.com.evil.test:1", false},
		{"10.0.0.0/8", "10.255.0.1:1", true},
		{"10.0.0.0/8", "11.0.0.1:1", false},
		{"10.0.0.0/8", "[::ffff:10.0.0.1]:1", true},
		{"10.0.0.0/8:22", "10.0.0.1:23", false},
		{"[fd00::/8]:22", "[fd12::1]:22", true},
		{"fd00::/8", "[fe80::1]:22", false},
		{"0.0.0.0/0", "example.com:1", false},
	} {
		r, err := policy.ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		if a, err := netip.ParseAddrPort(c.target); err == nil {
			got = r.MatchAddr(a)
		} else {
			host, port, _ := strings.Cut(c.target, ":")
			got = r.MatchName(host, map[string]uint16{"1": 1, "80": 80, "443": 443}[port])
		}
		if got != c.want {
			t.Errorf("%s of %s is %v, want %v", c.rule, c.target, got, c.want)
		}
	}
}

// FuzzParseRule checks that ParseRule returns an error that is a sentence, or a rule that
// equals the rule parsed from its String.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.com", "*.example.com:443", "[fd00::/8]:1", "10.0.0.0/8:1", "::1", "0x7f.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := policy.ParseRule(s)
		if err != nil {
			if !strings.HasSuffix(err.Error(), ".") {
				t.Errorf("%q has an error that is not a sentence: %v", s, err)
			}
			return
		}
		if again, err := policy.ParseRule(r.String()); err != nil || again != r {
			t.Errorf("%q is %+v, which is parsed again as %+v, %v", s, r, again, err)
		}
		if r.Domain == "" != r.Prefix.IsValid() {
			t.Errorf("%q is %+v, neither a domain nor addresses alone", s, r)
		}
	})
}

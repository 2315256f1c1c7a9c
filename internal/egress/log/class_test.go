package log_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/egress/log"
)

// TestClass checks that classes do not contain the names in rules.
func TestClass(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"public": "public", "allow *.example.com": "allow_list", "allow 10.0.0.0/8": "allow_list", "api": "internal", "provider": "internal",
		"not in network.allow": "not_allowed", "mode none": "mode_none", "metadata address": "metadata", "private address": "special_address",
		"worker's address": "worker", "denied by the operator": "operator", "host.stint.internal is off": "operator", "too many names": "limit",
		"encrypted ClientHello": "protocol", "customer.example.com": "other", "": "other",
	} {
		if got := (log.Entry{Rule: rule}).Class(); got != want {
			t.Errorf("the class of %q is %s, want %s", rule, got, want)
		}
	}
	if got := (log.Entry{Action: log.Suppressed, Rule: log.Deny}).Class(); got != "suppressed" {
		t.Errorf("the class of suppressed entries is %s", got)
	}
}

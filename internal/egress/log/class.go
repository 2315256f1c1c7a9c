package log

import "strings"

// classes contains the classes of rules.
var classes = map[string]string{
	"public":                 "public",
	"api":                    "internal",
	"provider":               "internal",
	"mode none":              "mode_none",
	"not in network.allow":   "not_allowed",
	"metadata address":       "metadata",
	"denied by the operator": "operator",
	"worker's address":       "worker",
	"loopback address":       "worker",
	"unknown name":           "unknown_name",
	"too many connections":   "limit",
	"too many queries":       "limit",
	"too many names":         "limit",
	"cleartext HTTP/2":       "protocol",
	"encrypted ClientHello":  "protocol",
	"host mismatch":          "protocol",
	"malformed CONNECT":      "protocol",
	"unreadable opening":     "protocol",
}

// Class returns the class of the entry's rule. Classes are a fixed set of words, unlike
// rules, which contain names of definitions.
func (e Entry) Class() string {
	if class, ok := classes[e.Rule]; ok {
		return class
	}
	switch {
	case e.Action == Suppressed:
		return "suppressed"
	case strings.HasPrefix(e.Rule, "allow "):
		return "allow_list"
	case strings.HasSuffix(e.Rule, " is off"):
		return "operator"
	case strings.HasSuffix(e.Rule, " address"):
		return "special_address"
	}
	return "other"
}

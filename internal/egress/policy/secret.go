package policy

// Secret is a secret of which the sandbox has only the placeholder. The proxy replaces
// Placeholder by Value in headers and queries, only in requests to Hosts. Hosts contains
// patterns; see HostMatches.
type Secret struct {
	Name, Placeholder, Value string
	Hosts                    []string
}

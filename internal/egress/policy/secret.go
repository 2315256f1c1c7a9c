package policy

// Secret is a value that the sandbox does not hold. The proxy replaces
// Placeholder by Value in headers and queries of requests to Hosts only; see
// HostMatches.
type Secret struct {
	Name, Placeholder, Value string
	Hosts                    []string
}

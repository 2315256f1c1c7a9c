package stint

// The host names that Stint serves inside every sandbox with a network.
const (
	HostAlias  = "host.stint.internal"  // the worker's loopback, if a rule allows it with its port
	ProxyAlias = "proxy.stint.internal" // an explicit HTTP proxy on every port
	ModelAlias = "model.stint.internal" // the model of the agent's provider, on port 80
	APIAlias   = "api.stint.internal"   // Stint itself, for agents that may use it, on port 80
)

package stint

// The host names that Stint serves inside every sandbox with a network.
const (
	HostAlias  = "host.stint.internal"  // the worker's loopback interface, if a rule allows this name with the port
	ProxyAlias = "proxy.stint.internal" // the egress proxy as an explicit HTTP proxy, on every port
	ModelAlias = "model.stint.internal" // the model of the agent's provider, on port 80
	APIAlias   = "api.stint.internal"   // the API of Stint, on port 80, for agents that may use it
)

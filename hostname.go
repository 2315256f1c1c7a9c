package stint

// The host names that Stint itself serves inside sandboxes. Which of them exist in a
// sandbox depends on the agent's definition.
const (
	HostAlias  = "host.stint.internal"  // the worker's loopback interface, if a rule allows this name with the port
	ProxyAlias = "proxy.stint.internal" // the egress proxy as an explicit HTTP proxy, on every port
	ModelAlias = "model.stint.internal" // the model proxy, on port 80, if the agent has a provider
	APIAlias   = "api.stint.internal"   // the API of Stint, on port 80, for agents that may use it
)

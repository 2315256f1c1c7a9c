// Package setup is the init process of a namespace sandbox. It runs inside the
// sandbox.
//
// It builds the root, redirects the network, and drops privileges; package
// agentinit then starts the command and reaps. It has few imports, because its
// initialization is part of every sandbox's start.
package setup

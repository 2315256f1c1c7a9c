// Package setup implements the init process of a namespace sandbox. It runs inside
// the sandbox.
//
// The package builds the root, redirects the network, and drops privileges. Package
// agentinit then starts the command and reaps processes. Package setup has few
// imports, because their initialization delays the start of every sandbox.
package setup

// Package agents tests real agents in the installed service.
//
// The tests run Claude Code, Codex, an agent of the Agent Client Protocol, and the
// assistant in sandboxes of a server that is started as an operator starts it. The
// model is a server on the loopback interface. It executes directives in the prompt,
// such as [[say: hello]], and accepts only one key, which the sandboxes never contain.
package agents

// Package agents answers: do real agents work in the service as it is installed?
//
// Its tests drive Claude Code, Codex, an agent of the Agent Client Protocol and
// the assistant in sandboxes of a server that runs as its operator would run
// it. Their model is a server on loopback that does what the prompt says, and
// takes one key only: the one that the sandbox never sees.
package agents

// Package examples answers: what does a first agent look like?
//
// The folders beside this file are agents to copy from; 'stint demo' carries
// the quickstart inside the binary. Each folder holds a stint.yaml and what its
// runs need.
package examples

import "embed"

// Quickstart is an agent whose prompts are bash scripts, a prompt and a volume
// of texts: quickstart/stint.yaml, quickstart/prompt.sh, quickstart/library.
//
//go:embed quickstart
var Quickstart embed.FS

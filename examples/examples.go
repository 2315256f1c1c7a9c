// Package examples answers: what does a first agent look like?
//
// The folders beside this file are agents to copy from; 'stint demo' carries
// two of them inside the binary. Each folder holds a stint.yaml and what its
// runs need.
package examples

import "embed"

// Demo are an agent whose prompts are bash scripts, a prompt and a volume of
// texts (quickstart/stint.yaml, quickstart/prompt.sh, quickstart/library), and
// the assistant with its instructions (assistant).
//
//go:embed quickstart assistant
var Demo embed.FS

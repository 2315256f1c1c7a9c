// Package examples contains example agents.
//
// Each directory has a stint.yaml and the files that its runs need. 'stint
// demo' uses two of them, which are embedded in the binary.
package examples

import "embed"

// Demo contains the directories quickstart (a shell agent, a prompt, and a
// volume of texts) and assistant (the assistant with instructions).
//
//go:embed quickstart assistant
var Demo embed.FS

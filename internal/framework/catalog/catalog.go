// Package catalog answers: which frameworks are there?
package catalog

import (
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/acp"
	"github.com/stint-dev/stint/internal/framework/assistant"
	"github.com/stint-dev/stint/internal/framework/claudecode"
	"github.com/stint-dev/stint/internal/framework/codex"
)

// all are the frameworks that this build drives, in the order in which lists
// show them.
var all = []framework.Framework{
	framework.Shell{},
	framework.Command{},
	assistant.Assistant{},
	claudecode.Framework{},
	codex.Framework{},
	acp.Framework{},
}

// All lists the frameworks.
func All() []framework.Framework { return append([]framework.Framework(nil), all...) }

// Of finds the framework of a definition. One that this build does not drive is
// a *stint.Error.
func Of(d *stint.Definition) (framework.Framework, error) {
	names := make([]string, len(all))
	for i, f := range all {
		if names[i] = f.Info().Name; names[i] == d.Framework {
			return f, nil
		}
	}
	return nil, stint.InvalidParam("framework", "The framework '%s' is not available on this server; use one of %s.", d.Framework, strings.Join(names, ", "))
}

// Package registry returns the adapter that drives each framework of package
// catalog.
package registry

import (
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/acp"
	"github.com/stint-dev/stint/internal/framework/assistant"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/framework/claudecode"
	"github.com/stint-dev/stint/internal/framework/codex"
)

// All returns an adapter for each framework, in the order of catalog.All.
func All() []framework.Framework {
	return []framework.Framework{
		framework.Shell{},
		framework.Command{},
		assistant.Assistant{},
		claudecode.Framework{},
		codex.Framework{},
		acp.Framework{},
	}
}

// Find returns the adapter for a definition's framework. If the framework does not
// exist, the error is a *stint.Error.
func Find(d *stint.Definition) (framework.Framework, error) {
	for _, f := range All() {
		if f.Info().Name == d.Framework {
			return f, nil
		}
	}
	return nil, stint.InvalidParam("framework", "The framework '%s' is not available on this server; use one of %s.", d.Framework, strings.Join(catalog.Names(), ", "))
}

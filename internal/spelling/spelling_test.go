package spelling_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/spelling"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"name", "timeout", "environment", "mcpServers", "maxCostUsd", "public", "restricted", "none", "shell", "lease-ttl", "framework"}
	for word, want := range map[string]string{
		"timout": "timeout", "time_out": "timeout", "Timeout": "timeout", "tiemout": "timeout", "env": "environment", "maxCostUSD": "maxCostUsd",
		"restrict": "restricted", "shel": "shell", "leaseTTL": "lease-ttl", "mcp": "mcpServers", "framwork": "framework",
		"colour": "", "": "", "x": "", "na": "", "open": "",
	} {
		if got := spelling.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

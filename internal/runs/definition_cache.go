package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// keptDefinitions bounds the parsed definitions that are kept in memory.
const keptDefinitions = 1024

// definitions keeps parsed definitions by version. Versions never change, so
// neither do they; whoever gets one must not write to it.
type definitions struct {
	mu   sync.Mutex // guards kept
	kept map[string]*stint.Definition
}

func newDefinitions() *definitions { return &definitions{kept: map[string]*stint.Definition{}} }

func (d *definitions) of(ctx context.Context, s store.Agents, org, agent, version string) (*stint.Definition, error) {
	d.mu.Lock()
	known := d.kept[version]
	d.mu.Unlock()
	if known != nil {
		return known, nil
	}
	v, err := s.AgentVersion(ctx, org, agent, version, 0)
	if err != nil {
		return nil, notFound(err, "agent version", version)
	}
	parsed := new(stint.Definition)
	if err := json.Unmarshal(v.Definition, parsed); err != nil {
		return nil, fmt.Errorf("read definition %s: %w", version, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) >= keptDefinitions {
		clear(d.kept)
	}
	d.kept[version] = parsed
	return parsed, nil
}

package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// maxDefinitions is the capacity of a definitionCache.
const maxDefinitions = 1024

// definitionCache caches decoded definitions by version. Versions are
// immutable, and callers must not modify the definitions.
type definitionCache struct {
	mu        sync.Mutex // guards byVersion
	byVersion map[string]*stint.Definition
}

func newDefinitionCache() *definitionCache {
	return &definitionCache{byVersion: map[string]*stint.Definition{}}
}

func (d *definitionCache) get(ctx context.Context, s Store, org, agent, version string) (*stint.Definition, error) {
	d.mu.Lock()
	cached := d.byVersion[version]
	d.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	v, err := s.AgentVersion(ctx, org, agent, version, 0)
	if err != nil {
		return nil, store.PublicError(err, "agent version", version)
	}
	decoded := new(stint.Definition) // validated when it was stored
	if err := json.Unmarshal(v.Definition, decoded); err != nil {
		return nil, fmt.Errorf("decode definition %s: %w", version, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.byVersion) >= maxDefinitions {
		clear(d.byVersion)
	}
	d.byVersion[version] = decoded
	return decoded, nil
}

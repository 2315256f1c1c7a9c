package client

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint"
)

// DeleteVersion removes one version. The current one, one that a checkpoint
// names and one that is kept are refused (invalid_state).
func (t *FileSets) DeleteVersion(ctx context.Context, id, version string) error {
	return remove(ctx, t.c, t.path(id, "versions", version)...)
}

// Keep asks that a version stays whatever the server's rules of retention say.
func (t *FileSets) Keep(ctx context.Context, id, version string) error {
	return t.c.do(ctx, call{method: http.MethodPut, path: t.path(id, "versions", version, "keep")}, nil)
}

// Release takes Keep back.
func (t *FileSets) Release(ctx context.Context, id, version string) error {
	return remove(ctx, t.c, t.path(id, "versions", version, "keep")...)
}

// Usage tells what the organisation keeps, and how much it may.
func (c *Client) Usage(ctx context.Context) (*stint.StorageUsage, error) {
	return get[*stint.StorageUsage](ctx, c, "usage")
}

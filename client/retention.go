package client

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint"
)

// DeleteVersion deletes a version. If it is current, is protected by Keep, or is
// used by a checkpoint or a run, DeleteVersion returns an *Error with the code
// invalid_state.
func (t *FileSets) DeleteVersion(ctx context.Context, id, version string) error {
	return remove(ctx, t.c, t.path(id, "versions", version)...)
}

// Keep protects a version from deletion by the server's retention rules and by
// DeleteVersion.
func (t *FileSets) Keep(ctx context.Context, id, version string) error {
	_, err := t.c.do(ctx, call{method: http.MethodPut, path: t.path(id, "versions", version, "keep")}, nil)
	return err
}

// Release ends the protection by Keep.
func (t *FileSets) Release(ctx context.Context, id, version string) error {
	return remove(ctx, t.c, t.path(id, "versions", version, "keep")...)
}

// Usage returns the storage usage and limit of the organisation.
func (c *Client) Usage(ctx context.Context) (*stint.StorageUsage, error) {
	return get[stint.StorageUsage](ctx, c, "usage")
}

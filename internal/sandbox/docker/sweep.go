//go:build linux && (amd64 || arm64)

package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/moby/client"
)

// Sweep removes the containers of an earlier process with the same instance,
// their roots, and what it left in the state folder. Their wardens end when that process
// does; this removes them if they should not have.
func (d *Driver) Sweep(ctx context.Context) error {
	list, err := d.client.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", instanceLabel+"="+d.c.Instance),
	})
	if err != nil {
		return fmt.Errorf("sweeping: listing containers: %w", err)
	}
	var errs []error
	for _, c := range list.Items {
		if !d.living(c.Labels[sandboxLabel]) {
			errs = append(errs, d.removeContainer(ctx, c.ID))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweeping: %w", err) // their mounts may still be in use
	}
	errs = append(errs, d.sweepRoots(ctx))
	entries, err := os.ReadDir(filepath.Join(d.dir, boxesDir))
	if err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	for _, e := range entries {
		if !d.living(e.Name()) {
			errs = append(errs, d.removeBox(e.Name()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	return nil
}

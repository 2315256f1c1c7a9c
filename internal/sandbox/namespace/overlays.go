//go:build linux && (amd64 || arm64)

package namespace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// expand gives a mount for each target. What changes layers is made ready; the
// work folders are the sandbox's until Close, or release.
func (sb *instance) expand(mounts []sandbox.Mount) ([]setup.Mount, error) {
	var list []setup.Mount
	for _, m := range sandbox.Flatten(mounts) {
		if !m.NeedsOverlay() {
			list = append(list, setup.Mount{Target: m.Target, Source: m.Source, Writable: m.Writable})
			continue
		}
		if err := sb.makeWorkDir(&m); err != nil {
			return nil, err
		}
		targets := append([]string{m.Target}, m.Alias...)
		slices.SortStableFunc(targets, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // as all will be
		for i, target := range targets {
			one := setup.Mount{Target: target, Layers: m.Layers, Upper: m.Upper, Writable: m.Upper != ""}
			if i > 0 {
				one.AliasOf = targets[0]
			}
			list = append(list, one)
		}
	}
	return list, nil
}

func (sb *instance) makeWorkDir(m *sandbox.Mount) error {
	if err := sb.driver.noOverlay; err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
	}
	if m.Upper == "" {
		return nil
	}
	if st, err := os.Stat(m.Upper); err != nil || !st.IsDir() {
		return &sandbox.Error{Message: fmt.Sprintf("The folder for changes at %s is missing on the host.", m.Target), Err: err}
	}
	err := overlay.MakeWorkDir(m.Upper)
	if errors.Is(err, overlay.ErrUnsupported) {
		return fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
	}
	if err != nil {
		return fmt.Errorf("laying folders over each other at %s: %w", m.Target, err)
	}
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.uppers = append(sb.uppers, m.Upper)
	return nil
}

// release removes the work folders of all upper ones but the first, whose
// overlays nobody uses any more.
func (sb *instance) removeWorkDirs(keep int) error {
	sb.mu.Lock()
	keep = min(keep, len(sb.uppers)) // Close may have been quicker
	gone := sb.uppers[keep:]
	sb.uppers = sb.uppers[:keep:keep]
	sb.mu.Unlock()
	var errs []error
	for _, upper := range gone {
		errs = append(errs, overlay.RemoveWorkDir(upper))
	}
	return errors.Join(errs...)
}

// countOverlays lets the meter know the overlays' files by their device: a
// process that holds a deleted one shows it so.
func (sb *instance) addOverlayDevices() error {
	for _, m := range sb.mounts {
		if m.Upper == "" || m.AliasOf != "" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/root%s", sb.process.Pid, m.Target), &st); err != nil {
			return fmt.Errorf("looking at %s: %w", m.Target, err)
		}
		sb.disk.AddDevice(uint64(st.Dev))
	}
	return nil
}

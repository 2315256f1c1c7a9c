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

// expand returns one mount for each target, including aliases. It creates the work
// folders of overlays, which exist until Close or removeWorkDirs.
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
		slices.SortStableFunc(targets, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // placeMounts uses the same order
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
		return fmt.Errorf("mounting an overlay at %s: %w", m.Target, err)
	}
	sb.state.mu.Lock()
	defer sb.state.mu.Unlock()
	sb.state.uppers = append(sb.state.uppers, m.Upper)
	return nil
}

// removeWorkDirs removes the work folders of all upper folders except the first keep
// upper folders. Their overlays must not be in use.
func (sb *instance) removeWorkDirs(keep int) error {
	sb.state.mu.Lock()
	keep = min(keep, len(sb.state.uppers)) // a concurrent Close may have removed them
	gone := sb.state.uppers[keep:]
	sb.state.uppers = sb.state.uppers[:keep:keep]
	sb.state.mu.Unlock()
	var errs []error
	for _, upper := range gone {
		errs = append(errs, overlay.RemoveWorkDir(upper))
	}
	return errors.Join(errs...)
}

// addOverlayDevices adds the devices of the overlays to the disk scanner,
// because deleted files that processes keep open are on these devices.
func (sb *instance) addOverlayDevices() error {
	for _, m := range sb.mounts {
		if m.Upper == "" || m.AliasOf != "" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/root%s", sb.process.Pid, m.Target), &st); err != nil {
			return fmt.Errorf("reading %s: %w", m.Target, err)
		}
		sb.disk.AddDevice(uint64(st.Dev))
	}
	return nil
}

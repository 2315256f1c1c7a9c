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
func (b *box) expand(mounts []sandbox.Mount) ([]setup.Mount, error) {
	var list []setup.Mount
	for _, m := range sandbox.Plain(mounts) {
		if !m.Layered() {
			list = append(list, setup.Mount{Target: m.Target, Source: m.Source, Writable: m.Writable})
			continue
		}
		if err := b.readyLayers(&m); err != nil {
			return nil, err
		}
		targets := append([]string{m.Target}, m.Alias...)
		slices.SortStableFunc(targets, func(a, b string) int { return cmp.Compare(len(a), len(b)) }) // as all will be
		for i, target := range targets {
			one := setup.Mount{Target: target, Layers: m.Layers, Upper: m.Upper, Writable: m.Upper != ""}
			if i > 0 {
				one.Twin = targets[0]
			}
			list = append(list, one)
		}
	}
	return list, nil
}

func (b *box) readyLayers(m *sandbox.Mount) error {
	if err := b.driver.noOverlay; err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
	}
	if m.Upper == "" {
		return nil
	}
	if st, err := os.Stat(m.Upper); err != nil || !st.IsDir() {
		return &sandbox.Error{Message: fmt.Sprintf("The folder for changes at %s is missing on the host.", m.Target), Err: err}
	}
	err := overlay.Ready(m.Upper)
	if errors.Is(err, overlay.ErrRefused) {
		return fmt.Errorf("%w: %w", sandbox.ErrOverlay, err)
	}
	if err != nil {
		return fmt.Errorf("laying folders over each other at %s: %w", m.Target, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uppers = append(b.uppers, m.Upper)
	return nil
}

// release removes the work folders of all upper ones but the first, whose
// overlays nobody uses any more.
func (b *box) release(but int) error {
	b.mu.Lock()
	but = min(but, len(b.uppers)) // Close may have been quicker
	gone := b.uppers[but:]
	b.uppers = b.uppers[:but:but]
	b.mu.Unlock()
	var errs []error
	for _, upper := range gone {
		errs = append(errs, overlay.Drop(upper))
	}
	return errors.Join(errs...)
}

// countOverlays lets the meter know the overlays' files by their device: a
// process that holds a deleted one shows it so.
func (b *box) countOverlays() error {
	for _, m := range b.mounts {
		if m.Upper == "" || m.Twin != "" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/root%s", b.process.Pid, m.Target), &st); err != nil {
			return fmt.Errorf("looking at %s: %w", m.Target, err)
		}
		b.disk.Count(uint64(st.Dev))
	}
	return nil
}

package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Collect removes roots that are not in use: first the roots to which no known
// reference refers, then the least recently used roots while the total size of the
// roots not in use exceeds Config.KeepBytes. It also syncs new roots to disk, so
// that they survive a crash of the machine.
func (s *Store) Collect(ctx context.Context) error {
	if err := s.syncRoots(); err != nil {
		return fmt.Errorf("syncing images to disk: %w", err)
	}
	var faults []error
	for ctx.Err() == nil {
		more, err := s.collectOne()
		if err != nil {
			faults = append(faults, err)
		}
		if !more || err != nil {
			break
		}
	}
	return errors.Join(append(faults, ctx.Err())...)
}

// collectOne removes one root, if any must be removed, and reports whether it removed
// one. While it holds the lock, it only renames the root's folder; it deletes the
// files afterwards.
func (s *Store) collectOne() (bool, error) {
	s.mu.Lock()
	victim := s.oldestUnused()
	if victim == nil {
		s.mu.Unlock()
		return false, nil
	}
	away, err := s.remove(victim)
	s.mu.Unlock()
	if err != nil {
		return false, fmt.Errorf("removing an image: %w", err)
	}
	if err := away(); err != nil {
		return false, fmt.Errorf("removing an image: %w", err)
	}
	return true, nil
}

// oldestUnused returns the next root to remove, or nil. The caller must hold s.mu.
func (s *Store) oldestUnused() *root {
	named := map[string]bool{}
	for _, n := range s.names {
		named[n.Image] = true
	}
	var idle []*root
	total := int64(0)
	for digest, r := range s.roots {
		switch {
		case r.refs > 0:
		case !named[digest]:
			return r
		default:
			idle = append(idle, r)
			total += r.marker.Size
		}
	}
	if total <= s.config.KeepBytes {
		return nil
	}
	return slices.MinFunc(idle, func(a, b *root) int {
		return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.marker.Digest, b.marker.Digest))
	})
}

// remove removes a root from the store and returns a function that deletes the root's
// files and stores the remaining names. The caller must hold s.mu, and call the
// function without it.
func (s *Store) remove(r *root) (func() error, error) {
	remove, err := s.moveAside(s.path("roots", folderOf(r.marker.Digest)))
	if err != nil {
		return nil, err
	}
	delete(s.roots, r.marker.Digest)
	for key, n := range s.names {
		if n.Image == r.marker.Digest {
			delete(s.names, key)
		}
	}
	return func() error { return errors.Join(s.storeNames(), remove()) }, nil
}

func (s *Store) storeNames() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saveNames()
}

// syncRoots syncs new roots to disk and then removes the boot ID from their metadata,
// so that they are kept after a reboot.
func (s *Store) syncRoots() error {
	s.mu.Lock()
	var fresh []*root
	for _, r := range s.roots {
		if r.marker.Boot != "" {
			fresh = append(fresh, r)
		}
	}
	s.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	if err := syncAll(s.config.Dir); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range fresh {
		if s.roots[r.marker.Digest] != r {
			continue
		}
		r.marker.Boot = ""
		if err := s.replaceJSON(s.path("roots", folderOf(r.marker.Digest), markerName), r.marker); err != nil {
			return err
		}
		s.touchAt(r, r.used)
	}
	return nil
}

package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// sweep removes temporary files of ended processes. Files of running processes
// are locked and kept.
func (s *Store) sweep() error {
	d, err := s.root.Open(temporary)
	if err != nil {
		return fmt.Errorf("opening the folder of temporary files: %w", err)
	}
	entries, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("reading the folder of temporary files: %w", err)
	}
	for _, e := range entries {
		if err := s.sweepFile(temporary + "/" + e.Name()); err != nil {
			return fmt.Errorf("removing a leftover temporary file: %w", err)
		}
	}
	return nil
}

func (s *Store) sweepFile(name string) error {
	f, err := s.root.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if lock(f) == nil {
		err = s.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

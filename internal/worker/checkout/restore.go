package checkout

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Suffixes of names in the cache's folder.
const (
	partSuffix = ".part" // a folder that is being written or removed
	noteSuffix = ".json" // the file with the note of a folder
)

// bootFile is the name of a file with the boot ID that the host had when the cache was
// written.
const bootFile = "boot"

// note describes a folder. It is written before the folder gets its final name.
type note struct {
	Size int64  `json:"size"`           // bytes
	Base string `json:"base,omitempty"` // name of the folder below; empty if there is none
}

// publish writes the note of a complete folder and gives the folder its final name.
func (c *Cache) publish(e *cached, dir string) error {
	n := note{Size: e.size}
	if e.base != nil {
		n.Base = e.base.name
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the root of a snapshot; the cache's own folder is private
		return err
	}
	if err := os.WriteFile(e.dir+noteSuffix, b, 0o600); err != nil {
		return err
	}
	return os.Rename(dir, e.dir)
}

// restore adds the complete checkouts that an earlier process left since the start of
// the host, and removes all other files.
func (c *Cache) restore() error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, bootFile)
	if was, err := os.ReadFile(path); err == nil && string(was) == string(boot) {
		found = slices.DeleteFunc(found, func(f fs.DirEntry) bool { return f.Name() == bootFile })
		c.restoreAll(found)
		return c.sweep(found)
	}
	if err := c.sweep(found); err != nil {
		return err
	}
	return os.WriteFile(path, boot, 0o600)
}

// readNote returns the note of a folder; ok is false if the folder is incomplete.
func (c *Cache) readNote(f fs.DirEntry) (n note, ok bool) {
	if !f.IsDir() || strings.HasSuffix(f.Name(), partSuffix) {
		return n, false
	}
	b, err := os.ReadFile(filepath.Join(c.dir, f.Name()+noteSuffix))
	return n, err == nil && json.Unmarshal(b, &n) == nil
}

// restoreAll adds entries for the complete folders.
func (c *Cache) restoreAll(found []fs.DirEntry) {
	notes := map[string]note{}
	for _, f := range found {
		if n, ok := c.readNote(f); ok {
			notes[f.Name()] = n
		}
	}
	for name := range notes {
		c.restoreEntry(name, notes)
	}
}

// restoreEntry adds entries for a folder and the folders below it. It returns nil if
// one of the folders is missing.
func (c *Cache) restoreEntry(name string, notes map[string]note) *cached {
	if e := c.entries[name]; e != nil {
		return e
	}
	n, ok := notes[name]
	if !ok {
		return nil
	}
	delete(notes, name) // ends the recursion if notes form a cycle
	e := c.newEntry(name)
	e.size = n.Size
	if n.Base != "" {
		if e.base = c.restoreEntry(n.Base, notes); e.base == nil {
			return nil
		}
		e.depth = e.base.depth + 1
		e.base.users++
	}
	close(e.ready)
	c.entries[name] = e
	return e
}

// sweep removes files without an entry. A file that cannot be removed is renamed
// and left for the next start, so that it does not block a checkout.
func (c *Cache) sweep(found []fs.DirEntry) error {
	for _, f := range found {
		if c.entries[strings.TrimSuffix(f.Name(), noteSuffix)] != nil {
			continue
		}
		path := filepath.Join(c.dir, f.Name())
		removeErr := c.erase(path)
		if removeErr == nil {
			continue
		}
		if !strings.HasSuffix(path, partSuffix) {
			var err error
			if path, err = putAside(path); err != nil {
				return fmt.Errorf("remove files of an earlier process: %w", errors.Join(removeErr, err))
			}
		}
		c.log.Warn("files that an earlier process left could not be removed; remove them by hand, or the next start tries again", "folder", path, "error", removeErr)
	}
	return nil
}

// putAside renames a file to a name that no checkout has. A rename works even if the
// disk is full.
func putAside(path string) (aside string, err error) {
	aside = path + "-gone-" + rand.Text() + partSuffix
	return aside, os.Rename(path, aside)
}

func diskUse(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}

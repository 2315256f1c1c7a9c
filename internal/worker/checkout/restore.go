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

// What lies beside a tree's folder, by the end of its name.
const (
	partSuffix = ".part" // a folder that is being filled, or deleted
	noteSuffix = ".json" // the note of a folder that is whole
)

// bootFile holds the identifier of the machine's start since which what lies
// here was written.
const bootFile = "boot"

// note says what a folder is; it is written before the folder has its name.
type note struct {
	Size int64  `json:"size"`
	Base string `json:"base,omitempty"`
}

// keep gives a folder that is whole its name.
func (c *Cache) keep(e *entry, dir string) error {
	n := note{Size: e.size}
	if e.base != nil {
		n.Base = e.base.name
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the root of a tree; the cache's own folder is closed
		return err
	}
	if err := os.WriteFile(e.dir+noteSuffix, b, 0o600); err != nil {
		return err
	}
	return os.Rename(dir, e.dir)
}

// takeUp finds what an earlier process left. What cannot be trusted is removed.
func (c *Cache) takeUp() error {
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

// readNote reads the note of a folder; one without is not whole.
func (c *Cache) readNote(f fs.DirEntry) (n note, ok bool) {
	if !f.IsDir() || strings.HasSuffix(f.Name(), partSuffix) {
		return n, false
	}
	b, err := os.ReadFile(filepath.Join(c.dir, f.Name()+noteSuffix))
	return n, err == nil && json.Unmarshal(b, &n) == nil
}

// restoreAll makes the entries of what is whole.
func (c *Cache) restoreAll(found []fs.DirEntry) {
	notes := map[string]note{}
	for _, f := range found {
		if n, ok := c.readNote(f); ok {
			notes[f.Name()] = n
		}
	}
	for name := range notes {
		c.restore(name, notes)
	}
}

// restore makes the entry of a folder and of those below it; nil where one of
// them is missing.
func (c *Cache) restore(name string, notes map[string]note) *entry {
	if e := c.entries[name]; e != nil {
		return e
	}
	n, ok := notes[name]
	if !ok {
		return nil
	}
	delete(notes, name) // a ring of notes ends here
	e := c.newEntry(name)
	e.size = n.Size
	if n.Base != "" {
		if e.base = c.restore(n.Base, notes); e.base == nil {
			return nil
		}
		e.depth = e.base.depth + 1
		e.base.users++
	}
	close(e.ready)
	c.entries[name] = e
	return e
}

// sweep removes what belongs to no entry. What cannot be removed is put aside
// for the next start: under its name it would be in the way of a tree.
func (c *Cache) sweep(found []fs.DirEntry) error {
	for _, f := range found {
		if c.entries[strings.TrimSuffix(f.Name(), noteSuffix)] != nil {
			continue
		}
		path := filepath.Join(c.dir, f.Name())
		fault := c.erase(path)
		if fault == nil {
			continue
		}
		if !strings.HasSuffix(path, partSuffix) {
			var err error
			if path, err = putAside(path); err != nil {
				return fmt.Errorf("remove what an earlier process left: %w", errors.Join(fault, err))
			}
		}
		c.log.Warn("files that an earlier process left could not be removed; remove them by hand, or the next start tries again", "folder", path, "error", fault)
	}
	return nil
}

// putAside gives something a name that is never taken for a tree's. It takes no
// room, so that a full disk can be cleared.
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

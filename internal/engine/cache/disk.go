package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox"
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
	path := filepath.Join(c.dir, bootFile)
	if was, err := os.ReadFile(path); err != nil || string(was) != string(boot) {
		return c.begin(path, boot)
	}
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	notes := map[string]note{}
	for _, f := range found {
		if n, ok := c.readNote(f); ok {
			notes[f.Name()] = n
		}
	}
	for name := range notes {
		c.restore(name, notes)
	}
	return c.sweep(found)
}

// begin makes an empty cache.
func (c *Cache) begin(path string, boot []byte) error {
	if err := sandbox.Remove(c.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
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

// sweep removes what belongs to no entry.
func (c *Cache) sweep(found []fs.DirEntry) error {
	var errs []error
	for _, f := range found {
		name := strings.TrimSuffix(f.Name(), noteSuffix)
		if f.Name() != bootFile && c.entries[name] == nil {
			errs = append(errs, sandbox.Remove(filepath.Join(c.dir, f.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what an earlier process left: %w", err)
	}
	return nil
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

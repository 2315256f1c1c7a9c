package agentcli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
)

// useLimit is the longest time for which a run may use a copy: the maximum time
// limit of a run, and a day for its start and end.
const useLimit = stint.MaxTimeout + 24*time.Hour

// copies manages copies of programs, each in a folder of its own below dir. Only
// folders can be mounted, and a sandbox must not see the other files in the
// original folder of a program. If a program is replaced, the new file gets
// another folder.
type copies struct {
	dir string
	now func() time.Time

	mu      sync.Mutex           // guards the fields below and the contents of dir
	cleared bool                 // copies of earlier processes were removed
	used    map[string]time.Time // by folder: the last time that mount returned it
}

// mount returns a mount that shows the file at the path target of a sandbox. The
// folder of target contains no other file.
func (c *copies) mount(file, target string) (sandbox.Mount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, err := c.add(file, path.Base(target))
	if err != nil {
		return sandbox.Mount{}, fmt.Errorf("copy a program for sandboxes: %w", err)
	}
	c.used[dir] = c.now()
	return sandbox.Mount{Source: dir, Target: path.Dir(target)}, nil
}

// add returns a folder that contains only a copy of the file, called name. It
// creates the folder if necessary. c.mu is held.
func (c *copies) add(file, name string) (string, error) {
	source, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer source.Close()
	st, err := source.Stat()
	if err != nil {
		return "", err
	}
	if !c.cleared {
		if err := errors.Join(os.RemoveAll(c.dir), os.MkdirAll(c.dir, 0o700)); err != nil {
			return "", err
		}
		c.cleared = true
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", file, name, st.Size(), st.ModTime().UnixNano()))
	dir := filepath.Join(c.dir, hex.EncodeToString(sum[:12]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	part := dir + ".new"
	err = errors.Join(c.removeUnused(), os.RemoveAll(part), os.Mkdir(part, 0o755))
	if err == nil {
		err = linkOrCopy(source, st, filepath.Join(part, name))
	}
	if err == nil {
		err = os.Rename(part, dir)
	}
	return dir, err
}

// removeUnused removes the folders that no run can use any more. c.mu is held.
func (c *copies) removeUnused() error {
	for dir, last := range c.used {
		if c.now().Sub(last) < useLimit {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		delete(c.used, dir)
	}
	return nil
}

// linkOrCopy creates a file at the path at. The file is a hard link to source if every
// user may read and execute source and the file system supports the link, and otherwise a
// copy.
func linkOrCopy(source *os.File, st fs.FileInfo, at string) error {
	if st.Mode()&0o005 == 0o005 && os.Link(source.Name(), at) == nil {
		if linked, err := os.Lstat(at); err == nil && os.SameFile(linked, st) {
			return nil
		}
		_ = os.Remove(at) // the file was replaced, or is a symbolic link
	}
	out, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(out, source)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

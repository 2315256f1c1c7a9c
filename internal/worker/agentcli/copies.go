package agentcli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/definition"
)

// keep puts one file alone into a folder, under a name, and gives the folder:
// sandboxes are shown folders only, and what else lies beside a program is not
// theirs to see. What the file becomes later lies in another folder.
func (f *Finder) keep(file, name string) (string, error) {
	f.keeping.Lock()
	defer f.keeping.Unlock()
	source, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("open a program: %w", err)
	}
	defer source.Close()
	st, err := source.Stat()
	if err != nil {
		return "", fmt.Errorf("look at a program: %w", err)
	}
	if err := f.clear(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", file, name, st.Size(), st.ModTime().UnixNano()))
	dir := filepath.Join(f.c.Dir, hex.EncodeToString(sum[:12]))
	if _, err := os.Stat(dir); err != nil {
		if err := errors.Join(f.forget(), arrange(source, st, dir, name)); err != nil {
			return "", fmt.Errorf("put a program where sandboxes see it: %w", err)
		}
	}
	f.shown[dir] = f.c.Now()
	return dir, nil
}

// useLimit is how long after it was given out a folder may still be seen: as
// long as a run may take, and a day for its beginning and end.
const useLimit = definition.MaxTimeout + 24*time.Hour

// forget removes what no run sees any more.
func (f *Finder) forget() error {
	for dir, last := range f.shown {
		if f.c.Now().Sub(last) < useLimit {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		delete(f.shown, dir)
	}
	return nil
}

// clear removes, once, what an earlier life has kept: it may be cut short, and
// no sandbox of that life is left.
func (f *Finder) clear() error {
	if f.cleared {
		return nil
	}
	if err := os.RemoveAll(f.c.Dir); err != nil {
		return fmt.Errorf("clear the folder of programs: %w", err)
	}
	if err := os.MkdirAll(f.c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of programs: %w", err)
	}
	f.cleared = true
	return nil
}

// arrange makes the folder complete or not at all.
func arrange(source *os.File, st fs.FileInfo, dir, name string) (err error) {
	next := dir + ".new"
	if err := errors.Join(os.RemoveAll(next), os.Mkdir(next, 0o755)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(next))
		}
	}()
	at := filepath.Join(next, name)
	if !linked(source, st, at) {
		if err := copied(source, at); err != nil {
			return err
		}
	}
	return os.Rename(next, dir)
}

// linked gives the file a second name, which costs nothing, where that is
// allowed and everybody may start it.
func linked(source *os.File, st fs.FileInfo, at string) bool {
	if st.Mode()&0o005 != 0o005 || os.Link(source.Name(), at) != nil {
		return false
	}
	if now, err := os.Stat(at); err == nil && os.SameFile(now, st) {
		return true
	}
	_ = os.Remove(at) // it was replaced, or is a link; a copy of what is open is made then
	return false
}

func copied(source *os.File, at string) error {
	out, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(out, source)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}

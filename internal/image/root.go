package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	rootfsName = "rootfs"
	markerName = "image.json"
	namesName  = "names.json"
)

// Root is an unpacked image in use. Nobody may write below Dir.
type Root struct {
	Dir             string // the root file system, on the server
	Digest          string // of the image's manifest, "sha256:…"
	Env             []string
	WorkingDir      string
	User            string
	Entrypoint, Cmd []string
	Note            string // a sentence for the user, where the image may not be the newest; else empty

	release func()
}

// Release gives the root back. Further calls do nothing.
func (r *Root) Release() { r.release() }

// root is an image on disk.
type root struct {
	marker rootMetadata
	refs   int
	used   time.Time
}

// marker is what image.json holds.
type rootMetadata struct {
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`           // bytes on disk, about
	Boot   string    `json:"boot,omitempty"` // of the machine, while the root may not have reached the disk
	Config v1.Config `json:"config"`
}

// naming is what a reference was when it was last asked for.
type tagRecord struct {
	Asked string `json:"asked"` // the digest that the registry gave, which an index of platforms may have
	Image string `json:"image"` // the digest of the image's manifest
}

// load reads what is on disk and removes roots that are not whole.
func (s *Store) load(ctx context.Context) error {
	if err := readJSON(s.path(namesName), &s.names); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.names = map[string]tagRecord{} // it saves asking again, no more
	}
	entries, err := os.ReadDir(s.path("roots"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir := s.path("roots", e.Name())
		r, err := s.loadRoot(dir)
		if err != nil {
			s.config.Logger.Warn("removing an image that is not whole", "image", e.Name(), "reason", err)
			if err := s.discard(dir); err != nil {
				return err
			}
			continue
		}
		s.roots[r.marker.Digest] = r
	}
	return nil
}

func (s *Store) loadRoot(dir string) (*root, error) {
	var r root
	p := filepath.Join(dir, markerName)
	if err := readJSON(p, &r.marker); err != nil {
		return nil, err
	}
	if folderOf(r.marker.Digest) != filepath.Base(dir) {
		return nil, fmt.Errorf("it says to be %q", r.marker.Digest)
	}
	if r.marker.Boot != "" && r.marker.Boot != s.boot {
		return nil, errors.New("the machine went down before it was safely on disk")
	}
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	r.used = info.ModTime()
	_, err = os.Stat(filepath.Join(dir, rootfsName))
	return &r, err
}

// discard removes a folder of the store.
func (s *Store) discard(dir string) error {
	remove, err := s.moveAside(dir)
	if err != nil {
		return err
	}
	return remove()
}

// moveAside takes a folder away by one rename and gives what deletes it.
func (s *Store) moveAside(dir string) (remove func() error, err error) {
	away, err := os.MkdirTemp(s.path("work"), "gone-")
	if err != nil {
		return nil, err
	}
	if err := os.Rename(dir, filepath.Join(away, "root")); err != nil {
		return nil, errors.Join(err, os.Remove(away))
	}
	return func() error { return os.RemoveAll(away) }, nil
}

// find gives the root for a digest that a reference or a registry named. The
// caller holds mu.
func (s *Store) lookUp(asked string) *root {
	if r := s.roots[asked]; r != nil {
		return r
	}
	for _, n := range s.names {
		if n.Asked == asked && s.roots[n.Image] != nil {
			return s.roots[n.Image]
		}
	}
	return nil
}

// lend hands out a root whose user was counted already.
func (s *Store) newRoot(r *root, note string) *Root {
	c := r.marker.Config
	return &Root{
		Dir: s.path("roots", folderOf(r.marker.Digest), rootfsName), Digest: r.marker.Digest,
		Env: c.Env, WorkingDir: c.WorkingDir, User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Note: note,
		release: sync.OnceFunc(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unuse(r)
		}),
	}
}

// leave ends one use. The caller holds mu.
func (s *Store) unuse(r *root) {
	r.refs--
	s.touch(r)
}

// touch notes a use, also for later processes. The caller holds mu.
func (s *Store) touch(r *root) {
	s.touchAt(r, s.config.Now())
}

func (s *Store) touchAt(r *root, at time.Time) {
	r.used = at
	p := s.path("roots", folderOf(r.marker.Digest), markerName)
	if err := os.Chtimes(p, r.used, r.used); err != nil {
		s.config.Logger.Warn("noting that an image was used", "image", r.marker.Digest, "error", err)
	}
}

// remember notes what a reference is. The caller holds mu.
func (s *Store) saveName(key string, n tagRecord) {
	if s.names[key] == n {
		return
	}
	s.names[key] = n
	if err := s.saveNames(); err != nil {
		s.config.Logger.Warn("saving the names of images", "error", err)
	}
}

func (s *Store) saveNames() error {
	return s.replaceJSON(s.path(namesName), s.names)
}

func folderOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func readJSON(p string, v any) error {
	b, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func writeJSON(p string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(p, b, 0o600)
}

// replaceJSON writes a file as a whole or not at all.
func (s *Store) replaceJSON(p string, v any) error {
	dir, err := os.MkdirTemp(s.path("work"), "file-")
	if err != nil {
		return err
	}
	whole := filepath.Join(dir, "file")
	if err = writeJSON(whole, v); err == nil {
		err = os.Rename(whole, p)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

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

// Root is an unpacked image in use. The store keeps it until Release. Files below Dir
// must not be changed.
type Root struct {
	Dir             string // root file system on the server
	Digest          string // digest of the image's manifest, "sha256:…"
	Env             []string
	WorkingDir      string
	User            string
	Entrypoint, Cmd []string
	Note            string // sentence for the user if the image may be outdated; otherwise empty

	release func()
}

// Release ends the use of the root. Only the first call has an effect.
func (r *Root) Release() { r.release() }

// root is an unpacked image on disk.
type root struct {
	marker rootMetadata
	refs   int       // number of uses: Acquire without Release
	used   time.Time // last use
}

// rootMetadata is the content of image.json.
type rootMetadata struct {
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`           // approximate bytes on disk
	Boot   string    `json:"boot,omitempty"` // boot ID of the machine; empty after the root was synced to disk
	Config v1.Config `json:"config"`
}

// tagRecord is the last known state of a reference.
type tagRecord struct {
	Asked string `json:"asked"` // digest that was requested from the registry; may be the digest of an index
	Image string `json:"image"` // digest of the image's manifest
}

// load reads the names and the roots on disk, and removes roots that are incomplete.
func (s *Store) load(ctx context.Context) error {
	err := readJSON(s.path(namesName), &s.names)
	if s.names == nil || err != nil && !errors.Is(err, os.ErrNotExist) {
		s.names = map[string]tagRecord{} // the names are only a cache
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
			s.config.Logger.Warn("removing an incomplete image", "image", e.Name(), "reason", err)
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
		return nil, fmt.Errorf("its digest is %q", r.marker.Digest)
	}
	if r.marker.Boot != "" && r.marker.Boot != s.boot {
		return nil, errors.New("the machine was restarted before it was synced")
	}
	info, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	r.used = info.ModTime()
	_, err = os.Stat(filepath.Join(dir, rootfsName))
	return &r, err
}

// discard deletes a folder of the store.
func (s *Store) discard(dir string) error {
	remove, err := s.moveAside(dir)
	if err != nil {
		return err
	}
	return remove()
}

// moveAside moves a folder into work and returns a function that deletes it.
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

// lookUp returns the root for the digest of an image or of an index, or nil. The
// caller must hold s.mu.
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

// newRoot returns a Root for r. The caller has already counted its use in r.refs.
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

// unuse ends one use of a root. The caller must hold s.mu.
func (s *Store) unuse(r *root) {
	r.refs--
	s.touch(r)
}

// touch records that r is used now, in memory and on disk. The caller must hold s.mu.
func (s *Store) touch(r *root) {
	s.touchAt(r, s.config.Now())
}

func (s *Store) touchAt(r *root, at time.Time) {
	r.used = at
	p := s.path("roots", folderOf(r.marker.Digest), markerName)
	if err := os.Chtimes(p, r.used, r.used); err != nil {
		s.config.Logger.Warn("recording the use of an image", "image", r.marker.Digest, "error", err)
	}
}

// saveName stores the record of a reference in names.json, if it has changed. The
// caller must hold s.mu.
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

// replaceJSON atomically replaces the file p by v in JSON.
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

//go:build linux && (amd64 || arm64)

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/hostview"
)

// root is what a container shows where no folder of the caller's lies: an image
// of links, empty folders and /etc, and binds of the rest.
type root struct {
	image  string // the daemon's reference
	system []hostview.Entry
	binds  []bind // of system
}

// roots remembers what was imported, by Spec.Image: the folder of an unpacked
// image does not change.
type roots struct {
	mu   sync.Mutex // guards what follows; held while importing
	made map[string]root
}

// root gives the root for an image folder, or for the host's own system.
func (d *Driver) root(ctx context.Context, image string) (root, error) {
	d.roots.mu.Lock()
	defer d.roots.mu.Unlock()
	if r, ok := d.roots.made[image]; ok && d.imported(ctx, r.image) {
		return r, nil
	}
	s := newSkeleton()
	system, etc, err := view(image)
	if err == nil {
		err = s.system(system, image)
	}
	if err != nil {
		return root{}, fmt.Errorf("making the container's root: %w", err)
	}
	s.etc(etc, d.bundle)
	paper, err := s.archive()
	if err != nil {
		return root{}, fmt.Errorf("making the container's root: %w", err)
	}
	// Of this server alone, which may remove it.
	sum := sha256.Sum256(append([]byte(d.c.Instance+"\n"), paper...))
	r := root{image: "stint/root:" + hex.EncodeToString(sum[:16]), system: system, binds: s.binds}
	if err := d.importRoot(ctx, r.image, paper); err != nil {
		return root{}, err
	}
	if d.roots.made == nil {
		d.roots.made = map[string]root{}
	}
	d.roots.made[image] = r
	return r, nil
}

// imported asks whether the image is still there: an operator may have pruned.
func (d *Driver) imported(ctx context.Context, image string) bool {
	_, err := d.client.ImageInspect(ctx, image)
	return err == nil
}

func (d *Driver) importRoot(ctx context.Context, image string, paper []byte) error {
	_, err := d.client.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("asking for the container's root: %w", err)
	}
	answer, err := d.client.ImageImport(ctx, client.ImageImportSource{Source: bytes.NewReader(paper), SourceName: "-"}, image, client.ImageImportOptions{
		Changes: []string{"LABEL " + instanceLabel + "=" + d.c.Instance},
	})
	if err != nil {
		return fmt.Errorf("importing the container's root: %w", err)
	}
	_, err = io.Copy(io.Discard, answer)
	answer.Close()
	if err == nil {
		_, err = d.client.ImageInspect(ctx, image) // a failure after the first byte comes as text
	}
	if err != nil {
		return fmt.Errorf("importing the container's root: %w", err)
	}
	return nil
}

// sweepRoots removes the images of roots that this process has not used, unless
// a container still does.
func (d *Driver) sweepRoots(ctx context.Context) error {
	d.roots.mu.Lock()
	defer d.roots.mu.Unlock()
	used := map[string]bool{}
	for _, r := range d.roots.made {
		used[r.image] = true
	}
	list, err := d.client.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("label", instanceLabel+"="+d.c.Instance)})
	if err != nil {
		return fmt.Errorf("listing containers' roots: %w", err)
	}
	var errs []error
	for _, image := range list.Items {
		for _, name := range image.RepoTags {
			if used[name] {
				continue
			}
			_, err := d.client.ImageRemove(ctx, name, client.ImageRemoveOptions{})
			if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
				errs = append(errs, fmt.Errorf("removing a container's root: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// skeleton collects the entries of a root.
type skeleton struct {
	entries map[string]entry // by path without the leading slash
	binds   []bind
	size    int64
}

type entry struct {
	mode fs.FileMode
	link string
	data []byte
}

func newSkeleton() *skeleton {
	s := &skeleton{entries: map[string]entry{}}
	for _, dir := range []string{
		"dev", "etc", "home", "home/agent", "proc", "run", "run/stint", "sys", "var", "workspace", strings.TrimPrefix(doorDir, "/"),
	} {
		s.entries[dir] = entry{mode: fs.ModeDir | 0o755}
	}
	s.entries["tmp"] = entry{mode: fs.ModeDir | fs.ModeSticky | 0o777}
	return s
}

// view lists what of an image, or of the host, is shown.
func view(image string) ([]hostview.Entry, []hostview.File, error) {
	if image == "" {
		return hostview.System(), hostview.Etc(), nil
	}
	return hostview.Image(image)
}

// system takes over links and what lies in /etc, and binds the rest. A bind
// more in a container costs more than a file more in its image.
func (s *skeleton) system(list []hostview.Entry, image string) error {
	s.entries["var/tmp"] = entry{mode: fs.ModeSymlink | 0o777, link: "/tmp"}
	for _, e := range list {
		rel, source := strings.TrimPrefix(e.Path, "/"), filepath.Join("/", image, e.Path)
		switch {
		case e.Link != "":
			s.entries[rel] = entry{mode: fs.ModeSymlink | 0o777, link: e.Link}
		case strings.HasPrefix(rel, "etc/"):
			if err := s.copy(source, rel); err != nil {
				return err
			}
		default:
			s.binds = append(s.binds, bind{source: source, target: e.Path})
		}
	}
	return nil
}

// etc adds the files that are ours, and puts a bundle of certificates in place
// of those that programs would trust.
func (s *skeleton) etc(files []hostview.File, bundle []byte) {
	for _, f := range files {
		s.entries["etc/"+f.Name] = entry{mode: 0o644, data: f.Data}
	}
	if len(bundle) == 0 {
		return
	}
	trusted, covered := entry{mode: 0o644, data: bundle}, 0
	for _, store := range hostview.Stores {
		for name := strings.TrimPrefix(store, "/"); ; covered++ { // a link's target too
			e, ok := s.entries[name]
			if !ok || e.mode.IsDir() {
				break
			}
			s.entries[name] = trusted
			if e.link == "" {
				covered++
				break
			}
			name = strings.TrimPrefix(filepath.Join("/", filepath.Dir(name), e.link), "/")
			if filepath.IsAbs(e.link) {
				name = strings.TrimPrefix(filepath.Clean(e.link), "/")
			}
		}
	}
	if covered > 0 {
		return
	}
	name := strings.TrimPrefix(hostview.Stores[0], "/")
	s.entries[name] = trusted
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if e, ok := s.entries[dir]; ok && !e.mode.IsDir() {
			delete(s.entries, dir) // a link that leads to no certificates
		}
	}
}

// maxEtc bounds what an image's /etc may hold, which passes through memory.
const maxEtc = 64 << 20

// copy takes a file, link or folder as it is now, without what is not for
// everybody: the agent could not read it, and no daemon's image needs it.
func (s *skeleton) copy(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		name := to + strings.TrimPrefix(path, from)
		switch mode := st.Mode(); {
		case mode&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			s.entries[name] = entry{mode: fs.ModeSymlink | 0o777, link: link}
		case mode&0o004 == 0:
			if mode.IsDir() {
				return fs.SkipDir
			}
		case mode.IsDir():
			s.entries[name] = entry{mode: fs.ModeDir | mode.Perm()}
		case mode.IsRegular():
			return s.copyFile(path, name, mode.Perm())
		}
		return nil
	})
}

func (s *skeleton) copyFile(path, name string, mode fs.FileMode) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEtc-s.size+1))
	if err != nil {
		return err
	}
	if s.size += int64(len(b)); s.size > maxEtc {
		return &sandbox.Error{Message: fmt.Sprintf("The image's /etc holds more than %d MB.", maxEtc>>20)}
	}
	s.entries[name] = entry{mode: mode, data: b}
	return nil
}

// archive is the same for the same entries, so it is imported once.
func (s *skeleton) archive() ([]byte, error) {
	var names []string
	for name := range s.entries {
		names = append(names, name)
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if _, ok := s.entries[dir]; !ok {
				s.entries[dir] = entry{mode: fs.ModeDir | 0o755}
				names = append(names, dir)
			}
		}
	}
	slices.Sort(names)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Compact(names) {
		if err := s.entries[name].write(w, name); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func (e entry) write(w *tar.Writer, name string) error {
	h := &tar.Header{Name: name, Mode: int64(e.mode.Perm()), Linkname: e.link, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
	if e.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case e.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case e.mode&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(e.data)
	return err
}

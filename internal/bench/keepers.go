package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/files"
)

// keeper keeps versions of a folder. Its methods work in the folder that it
// was made with.
type keeper interface {
	name() string
	snapshot(ctx context.Context, source string) error
	restore(ctx context.Context, target string) error // of the newest version
	stored() (int64, error)                           // bytes on disk
	close() error
}

// keepers are ours and those that are installed, each with a fresh folder
// below dir.
func keepers(ctx context.Context, dir string) ([]keeper, error) {
	ours, err := newLibraryKeeper(filepath.Join(dir, "stint"))
	if err != nil {
		return nil, err
	}
	all := []keeper{ours}
	for _, p := range []programKeeper{resticKeeper(filepath.Join(dir, "restic")), borgKeeper(filepath.Join(dir, "borg"))} {
		if _, err := exec.LookPath(p.program); err != nil {
			continue
		}
		if err := os.MkdirAll(p.home, 0o700); err != nil {
			return nil, err
		}
		if err := p.run(ctx, "", p.init); err != nil {
			return nil, err
		}
		all = append(all, &p)
	}
	return all, nil
}

// libraryKeeper is our own content store.
type libraryKeeper struct {
	dir     string
	blobs   app.Folder
	library *files.Library
	digest  string
}

const benchOrg = "org_bench"

func newLibraryKeeper(dir string) (*libraryKeeper, error) {
	temp := dir + "-tmp"
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return nil, err
	}
	blobs, err := app.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	l, err := files.New(blobs, files.Options{TempDir: temp})
	if err != nil {
		return nil, errors.Join(err, blobs.Close())
	}
	return &libraryKeeper{dir: dir, blobs: blobs, library: l}, nil
}

func (k *libraryKeeper) name() string { return "stint" }

func (k *libraryKeeper) snapshot(ctx context.Context, source string) error {
	ref, err := k.library.CommitDir(ctx, benchOrg, k.digest, source, files.DirOptions{})
	k.digest = ref.Digest
	return err
}

func (k *libraryKeeper) restore(ctx context.Context, target string) error {
	return k.library.Checkout(ctx, benchOrg, k.digest, target)
}

// archive writes the newest version as a tar.gz.
func (k *libraryKeeper) archive(ctx context.Context, target string) error {
	a, err := k.library.Download(ctx, benchOrg, k.digest, files.TarGzip)
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }()
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, a)
	return errors.Join(err, f.Close())
}

func (k *libraryKeeper) stored() (int64, error) { return folderSize(k.dir) }
func (k *libraryKeeper) close() error           { return k.blobs.Close() }

// programKeeper is another program.
type programKeeper struct {
	program           string
	home              string // its repository, cache and configuration
	init, save, bring []string
	env               []string
}

func resticKeeper(home string) programKeeper {
	return programKeeper{
		program: "restic", home: home, env: []string{"RESTIC_PASSWORD=bench", "RESTIC_REPOSITORY=" + home + "/repo", "RESTIC_CACHE_DIR=" + home + "/cache"},
		init: []string{"init", "-q"}, save: []string{"backup", "-q", "."}, bring: []string{"restore", "-q", "latest", "--target", "."},
	}
}

func borgKeeper(home string) programKeeper {
	return programKeeper{
		program: "borg", home: home, env: []string{"BORG_REPO=" + home + "/repo", "BORG_BASE_DIR=" + home, "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes", "BORG_RELOCATED_REPO_ACCESS_IS_OK=yes"},
		init: []string{"init", "-e", "none"}, save: []string{"create", "-C", "lz4", "::{now:%H%M%S.%f}", "."}, bring: []string{"extract", "::"},
	}
}

func (k *programKeeper) name() string { return k.program }

// run runs the program in a folder; what it wrote is its error.
func (k *programKeeper) run(ctx context.Context, dir string, args []string) error {
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), k.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %.300s", k.program, args[0], err, out)
	}
	return nil
}

func (k *programKeeper) snapshot(ctx context.Context, source string) error {
	return k.run(ctx, source, k.save)
}

func (k *programKeeper) restore(ctx context.Context, target string) error {
	args := k.bring
	if k.program == "borg" { // it restores versions by name
		cmd := exec.CommandContext(ctx, k.program, "list", "--short", "--last", "1")
		cmd.Env = append(os.Environ(), k.env...)
		name, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("borg list: %w", err)
		}
		args = []string{"extract", "::" + string(name[:max(0, len(name)-1)])}
	}
	return k.run(ctx, target, args)
}

func (k *programKeeper) stored() (int64, error) { return folderSize(filepath.Join(k.home, "repo")) }
func (k *programKeeper) close() error           { return nil }

func folderSize(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
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

// clocked is how long f takes.
func clocked(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

// dropCaches makes the next reads come from the disk; only root may.
func dropCaches() error {
	return errors.Join(runQuiet(context.Background(), "sync"), os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
}

package bench

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/files"
)

// benchContent measures keeping versions of folders beside other programs that
// do, each in turn with the others.
func (l *lab) benchContent(ctx context.Context) error {
	for _, make := range []func(context.Context, string) (*dataset, error){
		func(ctx context.Context, dir string) (*dataset, error) { return sourceTree(ctx, dir, l.a.Files) },
		func(ctx context.Context, dir string) (*dataset, error) { return nodeModules(ctx, dir, l.a.Files) },
		func(ctx context.Context, dir string) (*dataset, error) { return largeFiles(ctx, dir, l.a.LargeBytes) },
	} {
		if err := l.inFolder(func(dir string) error { return l.versions(ctx, dir, make) }); err != nil {
			return err
		}
	}
	if err := l.inFolder(func(dir string) error { return l.firstByte(ctx, dir) }); err != nil {
		return err
	}
	return l.inputs(ctx)
}

// inFolder calls f with a fresh folder.
func (l *lab) inFolder(f func(dir string) error) error {
	dir, err := l.folder()
	if err != nil {
		return err
	}
	return errors.Join(f(dir), os.RemoveAll(dir))
}

// versions measures what becomes of one set of files.
func (l *lab) versions(ctx context.Context, dir string, make func(context.Context, string) (*dataset, error)) error {
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	d, err := make(ctx, source)
	if err != nil {
		return err
	}
	all, err := keepers(ctx, dir)
	if err != nil {
		return err
	}
	defer func() {
		for _, k := range all {
			_ = k.close()
		}
	}()
	c := comparison{l: l, d: d, dir: dir, all: all}
	for _, step := range []func(context.Context) error{c.first, c.second, c.size, c.restores, c.archives} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// comparison measures keepers with one set of files.
type comparison struct {
	l   *lab
	d   *dataset
	dir string
	all []keeper // ours first
}

// each times f for every keeper, in turn.
func (c *comparison) each(ctx context.Context, f func(keeper) error) (map[string]time.Duration, error) {
	took := map[string]time.Duration{}
	for _, k := range c.all {
		if err := settled(ctx); err != nil {
			return nil, err
		}
		t, err := clocked(func() error { return f(k) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name(), err)
		}
		took[k.name()] = t
	}
	return took, nil
}

// settled waits until everything written is on disk, so that nobody's syncs pay
// for what others wrote.
func settled(ctx context.Context) error { return runQuiet(ctx, "sync") }

// row compares our time with those of others. Goals are by their names: how
// many times as long as we they must take.
func (c *comparison) row(what string, took map[string]time.Duration, goals map[string]float64) {
	r := Row{What: c.d.name + ": " + what, Measured: milli(took["stint"])}
	var notes []string
	for _, name := range sortedKeys(took) {
		if name != "stint" {
			notes = append(notes, fmt.Sprintf("%s %s ms", name, number(milliseconds(took[name]))))
		}
	}
	notes = append(notes, fmt.Sprintf("%d files, %.0f MB", c.d.files, float64(c.d.bytes)/1e6))
	r.Note = strings.Join(notes, ", ")
	for _, name := range sortedKeys(goals) {
		if other, ok := took[name]; ok {
			ratio := float64(other) / float64(took["stint"])
			r.Goals = append(r.Goals, atLeast("time of "+name, ratio, goals[name], "×"))
			r = r.compare(name, milli(other), 1, ratio)
		}
	}
	c.l.add(r)
}

func milli(d time.Duration) Measure { return Measure{Value: milliseconds(d), Unit: "ms"} }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *comparison) first(ctx context.Context) error {
	cold := c.l.o.Amounts == nil && !c.l.o.Quick && dropCaches() == nil
	took, err := c.each(ctx, func(k keeper) error {
		if cold {
			_ = dropCaches() // worked a moment ago
		}
		return k.snapshot(ctx, c.d.dir)
	})
	if err != nil {
		return err
	}
	what := "first snapshot, warm"
	if cold {
		what = "first snapshot, cold"
	}
	c.row(what, took, map[string]float64{"restic": 2})
	return nil
}

func (c *comparison) second(ctx context.Context) error {
	if err := c.d.change(ctx); err != nil {
		return err
	}
	took, err := c.each(ctx, func(k keeper) error { return k.snapshot(ctx, c.d.dir) })
	goal := 1.5
	if c.d.large {
		goal = 2
	}
	if err == nil {
		c.row("second snapshot by scanning", took, map[string]float64{"restic": goal})
	}
	return err
}

func (c *comparison) size(context.Context) error {
	sizes := map[string]int64{}
	for _, k := range c.all {
		n, err := k.stored()
		if err != nil {
			return err
		}
		sizes[k.name()] = n
	}
	r := Row{What: c.d.name + ": stored after two versions", Measured: Measure{Value: float64(sizes["stint"]) / 1e6, Unit: "MB"}}
	if other, ok := sizes["restic"]; ok {
		ratio := share(float64(sizes["stint"]), float64(other))
		r = r.compare("restic", Measure{Value: float64(other) / 1e6, Unit: "MB"}, float64(sizes["stint"]), float64(other))
		r.Goals = append(r.Goals, atMost("of restic's", ratio, 1.1, "×"))
	}
	if other, ok := sizes["borg"]; ok {
		r.Note = fmt.Sprintf("borg %.0f MB", float64(other)/1e6)
	}
	c.l.add(r)
	return nil
}

func (c *comparison) restores(ctx context.Context) error {
	took := map[string]time.Duration{}
	for _, k := range c.all {
		target, err := c.l.folder()
		if err != nil {
			return err
		}
		if err := settled(ctx); err != nil {
			return err
		}
		if took[k.name()], err = clocked(func() error { return k.restore(ctx, target) }); err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	if path, err := exec.LookPath("rsync"); err == nil {
		target, err := c.l.folder()
		if err != nil {
			return err
		}
		if err := settled(ctx); err != nil {
			return err
		}
		if took["rsync"], err = clocked(func() error { return runQuiet(ctx, path, "-a", c.d.dir+"/", target) }); err != nil {
			return err
		}
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	c.row("restored to a folder", took, map[string]float64{"restic": 1, "borg": 1, "rsync": 1})
	return nil
}

func (c *comparison) archives(ctx context.Context) error {
	ours, ok := c.all[0].(*libraryKeeper)
	if !ok {
		return errors.New("the first keeper is not ours")
	}
	target, plain, copied := filepath.Join(c.dir, "ours.tar.gz"), filepath.Join(c.dir, "plain.tar.gz"), filepath.Join(c.dir, "copy")
	took := map[string]time.Duration{}
	var err error
	if took["stint"], err = clocked(func() error { return ours.archive(ctx, target) }); err != nil {
		return err
	}
	if _, err := exec.LookPath("pigz"); err == nil {
		if took["tar|pigz"], err = clocked(func() error { return runQuiet(ctx, "tar", "-C", c.d.dir, "-I", "pigz", "-cf", plain, ".") }); err != nil {
			return err
		}
	}
	if took["cp of the archive"], err = clocked(func() error { return runQuiet(ctx, "cp", target, copied) }); err != nil {
		return err
	}
	c.row("archive of a version to a file", took, map[string]float64{"tar|pigz": 8, "cp of the archive": 0.6})
	return errors.Join(os.Remove(target), os.RemoveAll(plain), os.Remove(copied))
}

// firstByte measures how soon a download begins whatever the number of files.
func (l *lab) firstByte(ctx context.Context, dir string) (err error) {
	blobs, err := app.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, blobs.Close()) }()
	library, err := files.New(blobs, files.Options{TempDir: dir})
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	var writing sync.WaitGroup
	writing.Go(func() { out.CloseWithError(manyFiles(out, l.a.Entries)) }) // ends with the reader
	ref, err := library.CommitArchive(ctx, benchOrg, "", files.Tar, in)
	err = errors.Join(err, in.Close())
	if writing.Wait(); err != nil {
		return err
	}
	var took []time.Duration
	for range 20 {
		t, err := clocked(func() error {
			a, err := library.Download(ctx, benchOrg, ref.Digest, files.TarGzip)
			if err != nil {
				return err
			}
			_, err = io.ReadFull(a, make([]byte, 1))
			return errors.Join(err, a.Close())
		})
		if err != nil {
			return err
		}
		took = append(took, t)
	}
	m := latency(SampleOf(took))
	l.add(Row{
		What: fmt.Sprintf("first byte of a download of %d files", l.a.Entries), Measured: m,
		Goals: []Goal{atMost("p50", m.P50Ms, 20, "ms")},
	})
	return nil
}

// manyFiles writes a tar of n small files.
func manyFiles(w io.Writer, n int) error {
	t := tar.NewWriter(w)
	for i := range n {
		text := fmt.Sprintf("file %d", i)
		h := &tar.Header{Name: fmt.Sprintf("d%04d/e%02d/f%07d", i/4000, i/100%40, i), Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg, ModTime: epoch}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(t, text); err != nil {
			return err
		}
	}
	return t.Close()
}

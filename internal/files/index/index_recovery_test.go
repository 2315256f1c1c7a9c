package index_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/files/index"
	"pgregory.net/rapid"
)

// TestSoakDamage truncates, changes, or deletes the files of an index. Every place that
// the index still returns must be correct.
func TestSoakDamage(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	m := model{}
	func() {
		x := open(t, whole)
		defer x.Close()
		for i := range 14 {
			name := fmt.Sprintf("%04d", i)
			m[name] = pack{i * 100, 2500}
			add(t, x, "org_a", name, m[name])
		}
		gone := []string{"0003", "0007", "0013"}
		if err := x.Drop("org_a", gone); err != nil {
			t.Fatal(err)
		}
		for _, p := range gone {
			delete(m, p)
		}
	}()
	files, err := os.ReadDir(filepath.Join(whole, "org_a"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "x")
		if err != nil {
			rt.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			rt.Fatal(err)
		}
		x, err := index.Open(dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer x.Close()
		if rapid.Bool().Draw(rt, "loaded") && !x.Has("org_a", "0000") {
			rt.Fatal("a pack is missing before the damage")
		}
		for range rapid.IntRange(1, 3).Draw(rt, "damages") {
			f := rapid.SampledFrom(files).Draw(rt, "file")
			damage(rt, filepath.Join(dir, "org_a", f.Name()))
		}
		checkSubset(rt, x, m, 400)
		for name, p := range m {
			if err := x.Add("org_a", name, p.chunks()); err != nil {
				rt.Fatal(err)
			}
		}
		check(rt, x, "org_a", m, 25)
	})
}

// damage truncates a file, changes it, or deletes it.
func damage(rt *rapid.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return // deleted by an earlier call, or empty
	}
	at := rapid.IntRange(0, len(b)-1).Draw(rt, "at")
	switch rapid.SampledFrom([]string{"cut", "flip", "zero", "delete"}).Draw(rt, "damage") {
	case "cut":
		b = b[:at]
	case "flip":
		b[at] ^= 1 << (at % 8)
	case "zero":
		clear(b[at:min(len(b), at+5000)])
	case "delete":
		err = os.Remove(path)
		b = nil
	}
	if b != nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// checkSubset checks that the index returns only packs and places of the model,
// of which some may be missing.
func checkSubset(t failer, x *index.Index, m model, hashes int) {
	t.Helper()
	for p := range x.Packs("org_a") {
		if _, ok := m[p]; !ok {
			t.Fatalf("the index has the pack %q, which was not added", p)
		}
	}
	for n := range hashes {
		got, err := x.Places("org_a", hashOf(n))
		if err != nil {
			t.Fatalf("Places: %v", err)
		}
		for _, p := range got {
			if !slices.Contains(m.places(n), p) {
				t.Fatalf("chunk %d has the place %+v", n, p)
			}
		}
	}
}

// TestReopenAfterEachPack checks that an index which is opened again for each pack
// stores all packs in one file.
func TestReopenAfterEachPack(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), model{}
	for i := range 30 {
		x := open(t, dir)
		name := fmt.Sprintf("%04d", i)
		m[name] = pack{i, 3}
		add(t, x, "org_a", name, m[name])
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check(t, open(t, dir), "org_a", m, 30)
	if all, err := filepath.Glob(filepath.Join(dir, "org_a", "*")); err != nil || len(all) != 1 {
		t.Fatalf("there are %d files after 30 packs, %v", len(all), err)
	}
}

// TestFormerVersionsFiles checks that files in the format of earlier versions of the
// index are ignored and removed.
func TestFormerVersionsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	former := []string{"state", "state.new", "run-0000000000000001"}
	for _, name := range former {
		path := filepath.Join(dir, "org_a", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("stintcs1"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	x, m := open(t, dir), model{"p": {0, 10}}
	check(t, x, "org_a", model{}, 10)
	add(t, x, "org_a", "p", m["p"])
	check(t, x, "org_a", m, 20)
	for _, name := range former {
		if _, err := os.Lstat(filepath.Join(dir, "org_a", name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", name, err)
		}
	}
}

// TestDropWithoutCompaction checks that a log that cannot be compacted, for example on a
// full disk, does not prevent the removal of packs: their deletion frees the disk.
func TestDropWithoutCompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, m := open(t, dir), model{"kept": {0, 10}, "large": {0, 30_000}}
	for name, p := range m {
		add(t, x, "org_a", name, p)
	}
	obstacle := filepath.Join(dir, "org_a", "chunks.log.new")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also if the drop is repeated
		if err := x.Drop("org_a", []string{"large"}); err != nil {
			t.Fatal(err)
		}
	}
	delete(m, "large")
	check(t, x, "org_a", m, 20)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, open(t, dir), "org_a", m, 20)
}

// TestUnopenableFilesStay checks that Find returns an error if a file exists but cannot
// be opened, for example because the process has too many open files. The index must
// not remove the file.
func TestUnopenableFilesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x, m := open(t, dir), model{"p": {0, 10}}
	add(t, x, "org_a", "p", m["p"])
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "org_a", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %q, %v", files, err)
	}
	for _, f := range files {
		x := open(t, dir)
		aside := filepath.Join(t.TempDir(), "aside")
		if err := errors.Join(os.Rename(f, aside), os.Symlink(f, f)); err != nil { // a link to itself
			t.Fatal(err)
		}
		if _, _, err := x.Find("org_a", hashOf(1)); err == nil {
			t.Errorf("without %s there is no error", f)
		}
		if err := os.Rename(aside, f); err != nil {
			t.Fatal(err)
		}
		check(t, x, "org_a", m, 20)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

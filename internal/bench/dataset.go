package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// dataset is a folder of files in two versions, the same for the same name and
// size.
type dataset struct {
	name  string
	large bool // few large files that do not compress, instead of many small ones
	dir   string
	files int
	bytes int64
	rand  *rand.Rand
	words []string
}

// epoch is the time of the oldest file; each later one is a second younger.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newDataset(name, dir string) *dataset {
	var seed [32]byte
	copy(seed[:], name)
	d := &dataset{name: name, dir: dir, rand: rand.New(rand.NewChaCha8(seed))}
	for range 4000 {
		word := make([]byte, 3+d.rand.IntN(8))
		for i := range word {
			word[i] = byte('a' + d.rand.IntN(26))
		}
		d.words = append(d.words, string(word))
	}
	return d
}

// sourceTree is like a large program's sources: n files of 14 KB on average,
// which compress to a third.
func sourceTree(ctx context.Context, dir string, n int) (*dataset, error) {
	d := newDataset("source tree", dir)
	return d, d.fill(ctx, n, func(i int) (string, int) {
		return fmt.Sprintf("part%02d/sub%02d/file%05d.c", i/800, i/40%20, i), 1000 + d.rand.IntN(26_000)
	})
}

// nodeModules is like the packages of a program: small files in deep folders,
// many of them equal.
func nodeModules(ctx context.Context, dir string, n int) (*dataset, error) {
	d := newDataset("node_modules", dir)
	return d, d.fill(ctx, n, func(i int) (string, int) {
		size := 200 + d.rand.IntN(7000)
		switch i % 20 {
		case 0:
			return fmt.Sprintf("node_modules/p%04d/LICENSE", i/20), -1100
		case 1:
			return fmt.Sprintf("node_modules/p%04d/package.json", i/20), 900
		}
		return fmt.Sprintf("node_modules/p%04d/dist/esm/v%d/m%05d.js", i/20, i%3, i), size
	})
}

// fill writes n files; name gives their paths and sizes, a negative one for a
// text that is always the same.
func (d *dataset) fill(ctx context.Context, n int, name func(i int) (string, int)) error {
	fixed := rand.New(rand.NewChaCha8([32]byte{1}))
	license := d.text(fixed, 1100)
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		path, size := name(i)
		text := license
		if size > 0 {
			text = d.text(d.rand, size)
		}
		path = filepath.Join(d.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		at := epoch.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			return err
		}
		d.files++
		d.bytes += int64(len(text))
	}
	return nil
}

// text is about n bytes of words, some far more frequent than others.
func (d *dataset) text(r *rand.Rand, n int) []byte {
	out := make([]byte, 0, n+16)
	for len(out) < n {
		i := int(r.ExpFloat64() * 250)
		out = append(out, d.words[i%len(d.words)]...)
		switch r.IntN(12) {
		case 0:
			out = append(out, ";\n\t"...)
		case 1:
			out = append(out, " = "...)
		default:
			out = append(out, ' ')
		}
	}
	return out
}

// largeFiles are eight files that do not compress.
func largeFiles(ctx context.Context, dir string, bytes int64) (*dataset, error) {
	d := newDataset("large files", dir)
	d.large = true
	for i := range 8 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := d.noise(filepath.Join(dir, fmt.Sprintf("large%d.bin", i)), bytes/8, -1); err != nil {
			return nil, err
		}
		d.files++
		d.bytes += bytes / 8
	}
	return d, nil
}

// noise writes n random bytes, and a few more at the place insert; none for a
// negative one.
func (d *dataset) noise(path string, n, insert int64) error {
	var seed [32]byte
	copy(seed[:], filepath.Base(path))
	source := rand.NewChaCha8(seed)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	block := make([]byte, 1<<20)
	for at := int64(0); at < n; at += int64(len(block)) {
		_, _ = source.Read(block) // never fails
		if insert >= at && insert < at+int64(len(block)) {
			_, _ = w.WriteString("some bytes that were not there before")
		}
		_, _ = w.Write(block[:min(int64(len(block)), n-at)])
	}
	if err := w.Flush(); err != nil { // tells of earlier failures too
		_ = f.Close()
		return err
	}
	return f.Close()
}

// change makes the second version: one file in a hundred changed, one in four
// hundred removed and as many new; of large files, each with an insertion in
// its middle.
func (d *dataset) change(ctx context.Context) error {
	if d.large {
		return d.insert(ctx)
	}
	paths, err := d.paths()
	if err != nil {
		return err
	}
	for n, path := range paths {
		switch {
		case n%100 == 0:
			err = d.edit(path)
		case n%400 == 1:
			err = errors.Join(os.WriteFile(path+".new", d.text(d.rand, 5000), 0o644), os.Remove(path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// paths lists the files.
func (d *dataset) paths() (paths []string, err error) {
	err = filepath.WalkDir(d.dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

func (d *dataset) insert(ctx context.Context) error {
	for i := range 8 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := d.noise(filepath.Join(d.dir, fmt.Sprintf("large%d.bin", i)), d.bytes/8, d.bytes/16); err != nil {
			return err
		}
	}
	return nil
}

// edit puts a line into the middle of a file.
func (d *dataset) edit(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	half := len(text) / 2
	changed := append(append([]byte{}, text[:half]...), d.text(d.rand, 60)...)
	return os.WriteFile(path, append(changed, text[half:]...), 0o644)
}

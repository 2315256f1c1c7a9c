package download_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/e2e/installation"
)

// item is an entry of a test folder. The name of a folder ends with a slash. A link has
// a target. A zero mode or mtime means a default value. Parent folders need not be
// listed.
type item struct {
	name   string
	target string
	body   []byte
	mode   os.FileMode
	mtime  time.Time
}

// noise returns n bytes that cannot be compressed. Equal n give equal bytes.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// corpus returns the items of folders that are difficult for archive formats, by volume
// name.
func corpus() map[string][]item {
	large := []item{{name: "noise", body: noise(3 << 20)}, {name: "text", body: bytes.Repeat([]byte("A line that comes again.\n"), 3<<20/25)}}
	return map[string][]item{"empty": nil, "odd": slices.Concat(oddNames(), oddTimes()), "long": longNames(), "many": many(), "large": large}
}

func oddNames() []item {
	return []item{
		{name: "line\nbreak", body: []byte("n")},
		{name: "tab\tand \"quotes\" and \\", body: []byte("t")},
		{name: "\x01\x7f", body: []byte("control")},
		{name: "ünïcödé-日本-🌳", body: []byte("u")},
		{name: "latin-\xe9", body: []byte("no UTF-8")},
		{name: "latin-\xff/\x80", body: []byte("below no UTF-8")},
		{name: "latin-link", target: "latin-\xe9"},
		{name: "ünï-link", target: "ünïcödé-日本-🌳"},
		{name: "-rf", body: []byte("dash")},
		{name: "..."},
		{name: " leading and trailing "},
		{name: "d/f", body: []byte("f")},
		{name: "d-e", body: []byte("sorts between d and d/ by bytes")},
		{name: "d/up", target: ".."},
		{name: "d/beside", target: "../script"},
		{name: "d/dangling", target: "nowhere/at/all"},
		{name: "empty-file"},
		{name: "empty-folder/"},
		{name: "closed-folder/", mode: 0o500},
		{name: "open-folder/", mode: 0o777},
		{name: "script", mode: 0o755, body: []byte("#!/bin/sh\n")},
		{name: "secret", mode: 0o400, body: []byte("x")},
	}
}

// beforeEpoch is the suffix of files with a time before 1970 that has a fraction.
const beforeEpoch = "before-epoch"

func oddTimes() []item {
	return []item{
		{name: "sub-second", mtime: time.Unix(1_700_000_000, 123_456_789)},
		{name: "one-nanosecond/", mtime: time.Unix(1_600_000_000, 1)},
		{name: "timed-link", target: "sub-second", mtime: time.Unix(1_650_000_000, 987_654_321)},
		{name: "epoch", mtime: time.Unix(0, 0)},
		{name: "in-1950", mtime: time.Unix(-631_152_000, 0)},
		{name: beforeEpoch, mtime: time.Unix(-86_400, 250_000_000)},
		{name: "just-" + beforeEpoch, mtime: time.Unix(-1, 500_000_000)},
		{name: "after-2038", mtime: time.Unix(1<<31+5, 0)},
		{name: "after-2106", mtime: time.Unix(1<<32+5, 500_000_000)},
	}
}

// longNames returns items with names or targets that need extended tar headers. Some of
// these headers are longer than one block.
func longNames() []item {
	deep := strings.Repeat(strings.Repeat("q", 59)+"/", 50)
	items := []item{
		{name: deep + "end", body: []byte("at the end of 3,003 bytes")},
		{name: strings.Repeat("é", 127), body: []byte("254 bytes")},
		{name: strings.Repeat("\xe9", 255), body: []byte("no UTF-8")},
		{name: "link", target: strings.Repeat("x/", 900) + "y"},
		{name: "latin", target: strings.Repeat("\xff/", 90) + "y"},
	}
	for _, n := range []int{99, 100, 101, 154, 155, 156, 255} {
		items = append(items, item{name: strings.Repeat("n", n), body: []byte{byte(n)}}, item{name: fmt.Sprintf("to-%d", n), target: strings.Repeat("n", n)},
			item{name: strings.Repeat("f", n-1) + "/"})
	}
	return items
}

func many() (items []item) {
	for i := range 2000 {
		items = append(items, item{name: fmt.Sprintf("d%d/f%d", i%20, i), body: bytes.Repeat([]byte{byte(i)}, i%300), mode: 0o600 + os.FileMode(i%8)})
	}
	return items
}

// folder creates a temporary folder with the items and returns its path. The default
// modification time is in 2017.
func folder(t testing.TB, items []item) string {
	t.Helper()
	dir := t.TempDir()
	for _, i := range items {
		place(t, dir, i)
	}
	when := map[string]time.Time{}
	for _, i := range items {
		when[filepath.Join(dir, i.name)] = i.mtime
	}
	var all []string
	installation.Check(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	for _, path := range all {
		at := when[path]
		if at.IsZero() {
			at = time.Unix(1_500_000_000+int64(len(path)), 0)
		}
		setTime(t, path, at)
	}
	return dir
}

func place(t testing.TB, dir string, i item) {
	t.Helper()
	path := filepath.Join(dir, i.name)
	mode := i.mode
	switch {
	case strings.HasSuffix(i.name, "/"):
		if mode == 0 {
			mode = 0o755
		}
		installation.Check(t, os.MkdirAll(path, 0o755))
	case i.target != "":
		installation.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		installation.Check(t, os.Symlink(i.target, path))
		return
	default:
		if mode == 0 {
			mode = 0o644
		}
		installation.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		installation.Check(t, os.WriteFile(path, i.body, 0o600))
	}
	installation.Check(t, os.Chmod(path, mode))
}

package download_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/e2e/installation"
)

// entry is what anybody says of a file, a folder or a link.
type entry struct {
	Kind   string // file, dir or symlink
	Mode   fs.FileMode
	Mtime  string // nanoseconds since 1970
	Size   int64  // of a file
	Target string // of a link
	SHA256 string // of a file
}

// listing is a whole tree, by paths.
type listing map[string]entry

// listed reads a folder.
func listed(t testing.TB, dir string) listing {
	t.Helper()
	all := listing{}
	installation.Check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{Kind: "dir", Mode: info.Mode().Perm(), Mtime: strconv.FormatInt(info.ModTime().UnixNano(), 10)}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			e.Kind = "symlink"
			e.Target, err = os.Readlink(path)
		case info.Mode().IsRegular():
			var b []byte
			b, err = os.ReadFile(path)
			sum := sha256.Sum256(b)
			e.Kind, e.Size, e.SHA256 = "file", int64(len(b)), hex.EncodeToString(sum[:])
		case !info.IsDir():
			e.Kind = info.Mode().String()
		}
		all[strings.TrimPrefix(path, dir+"/")] = e
		return err
	}))
	return all
}

// told reads the listings of untar.mjs, by the names of their archives.
func told(t testing.TB, out []byte) map[string]listing {
	t.Helper()
	var found map[string][]struct {
		Path, Kind, Mtime, Target, SHA256 string
		Mode                              fs.FileMode
		Size                              int64
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("these are no listings: %v\n%.1000s", err, out)
	}
	all := map[string]listing{}
	for name, entries := range found {
		all[name] = listing{}
		for _, e := range entries {
			path := unhex(t, e.Path)
			if _, twice := all[name][path]; twice {
				t.Errorf("%s has %q twice", name, path)
			}
			all[name][path] = entry{e.Kind, e.Mode, e.Mtime, e.Size, unhex(t, e.Target), e.SHA256}
		}
	}
	return all
}

func unhex(t testing.TB, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	installation.Check(t, err)
	return string(b)
}

// as gives a copy of which each entry was seen by change; an entry without a
// kind is left out.
func (l listing) as(change func(path string, e entry) entry) listing {
	out := listing{}
	for path, e := range l {
		if e = change(path, e); e.Kind != "" {
			out[path] = e
		}
	}
	return out
}

// same is a listing as it is.
func same(_ string, e entry) entry { return e }

// asBSDTar leaves out what some versions of bsdtar read wrongly: fractions
// before 1970.
func asBSDTar(path string, e entry) entry {
	if strings.HasSuffix(path, beforeEpoch) {
		e.Mtime = ""
	}
	return e
}

// asZip sees times as a zip tells them, in whole seconds of 32 bits.
func asZip(path string, e entry) entry {
	ns, _ := strconv.ParseInt(e.Mtime, 10, 64)
	e.Mtime = strconv.FormatInt(int64(math.Floor(float64(ns)/1e9)), 10)
	if strings.HasSuffix(path, beforeEpoch) || strings.HasPrefix(path, "after-") || path == "in-1950" {
		e.Mtime = ""
	}
	return e
}

// asUnzip leaves out what unzip does not keep: the times of links.
func asUnzip(path string, e entry) entry {
	if e = asZip(path, e); e.Kind == "symlink" {
		e.Mtime = ""
	}
	return e
}

// asBSDUnzip leaves out a name that bsdtar takes for one of Windows.
func asBSDUnzip(path string, e entry) entry {
	if strings.HasPrefix(path, "tab\t") {
		return entry{}
	}
	return asZip(path, e)
}

// asPython leaves out what tarfile does not set, the times of links, and sees
// others to the microsecond: it keeps seconds as a floating-point number.
func asPython(_ string, e entry) entry {
	ns, _ := strconv.ParseInt(e.Mtime, 10, 64)
	e.Mtime = strconv.FormatInt((ns+500)/1000, 10)
	if e.Kind == "symlink" {
		e.Mtime = ""
	}
	return e
}

// setTime sets the time of a file, or of a link itself.
func setTime(t testing.TB, path string, at time.Time) {
	t.Helper()
	ts := unix.Timespec{Sec: at.Unix(), Nsec: int64(at.Nanosecond())}
	installation.Check(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
}

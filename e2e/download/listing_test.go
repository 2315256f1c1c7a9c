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

// entry describes a file, a folder, or a link of a file tree.
type entry struct {
	Kind   string // file, dir or symlink
	Mode   fs.FileMode
	Mtime  string // modification time in nanoseconds since 1970, as a decimal number
	Size   int64  // of a file
	Target string // of a link
	SHA256 string // of a file
}

// listing contains the entries of a file tree by path.
type listing map[string]entry

// list returns the listing of a folder.
func list(t testing.TB, dir string) listing {
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

// parseListings parses the JSON output of testdata/untar.mjs. It returns the listing of
// each archive, by the name of the archive.
func parseListings(t testing.TB, out []byte) map[string]listing {
	t.Helper()
	var found map[string][]struct {
		Path, Kind, Mtime, Target, SHA256 string
		Mode                              fs.FileMode
		Size                              int64
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("parsing the listings: %v\n%.1000s", err, out)
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

// as returns a copy of the listing with change applied to each entry. It leaves out the
// entries for which change returns an empty Kind.
func (l listing) as(change func(path string, e entry) entry) listing {
	out := listing{}
	for path, e := range l {
		if e = change(path, e); e.Kind != "" {
			out[path] = e
		}
	}
	return out
}

// unchanged returns the entry as it is, for programs that keep all its properties.
func unchanged(_ string, e entry) entry { return e }

// asBSDTar removes times before 1970 that have a fraction, because some versions of
// bsdtar read them wrongly.
func asBSDTar(path string, e entry) entry {
	if strings.HasSuffix(path, beforeEpoch) {
		e.Mtime = ""
	}
	return e
}

// asZip rounds the time down to seconds, the precision of a zip. It removes times
// before 1970 and after 2038, because a zip has 32 bits for the seconds.
func asZip(path string, e entry) entry {
	ns, _ := strconv.ParseInt(e.Mtime, 10, 64)
	e.Mtime = strconv.FormatInt(int64(math.Floor(float64(ns)/1e9)), 10)
	if strings.HasSuffix(path, beforeEpoch) || strings.HasPrefix(path, "after-") || path == "in-1950" {
		e.Mtime = ""
	}
	return e
}

// asUnzip is asZip, and also removes the times of links, which unzip does not keep.
func asUnzip(path string, e entry) entry {
	if e = asZip(path, e); e.Kind == "symlink" {
		e.Mtime = ""
	}
	return e
}

// asBSDUnzip is asZip, and also leaves out a name that bsdtar treats as a Windows path.
func asBSDUnzip(path string, e entry) entry {
	if strings.HasPrefix(path, "tab\t") {
		return entry{}
	}
	return asZip(path, e)
}

// asPython removes the times of links, because tarfile does not set them. It rounds
// other times to microseconds, because tarfile stores seconds as a floating-point
// number.
func asPython(_ string, e entry) entry {
	ns, _ := strconv.ParseInt(e.Mtime, 10, 64)
	e.Mtime = strconv.FormatInt((ns+500)/1000, 10)
	if e.Kind == "symlink" {
		e.Mtime = ""
	}
	return e
}

// setTime sets the access and modification times of a file, a folder, or a link itself.
func setTime(t testing.TB, path string, at time.Time) {
	t.Helper()
	ts := unix.Timespec{Sec: at.Unix(), Nsec: int64(at.Nanosecond())}
	installation.Check(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
}

package download_test

import (
	"bytes"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/e2e/installation"
)

// sample is a volume with a folder of the corpus, and its archive.
type sample struct {
	id   string
	want listing // entries of the pushed folder
	link string  // URL of the tar.gz
	file string  // path of the downloaded tar.gz
}

// TestArchiveReaders unpacks archives with several programs and compares the results
// with the pushed folders.
func TestArchiveReaders(t *testing.T) {
	t.Parallel()
	w := serve(t, nil)
	samples := map[string]sample{}
	for name, items := range corpus() {
		dir := folder(t, items)
		s := sample{id: w.push(t, name, dir), want: list(t, dir)}
		s.link = w.link(t, s.id, "")
		s.file = w.fetch(t, s.link, name+"-v1.tar.gz")
		program{t, dir}.must("gzip", "-t", s.file)
		samples[name] = s
	}
	t.Run("readers", func(t *testing.T) {
		for name, s := range samples {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				t.Run("resumed", func(t *testing.T) { t.Parallel(); w.checkResumed(t, s) })
				unpackAll(t, s.want, tarGzips, s.file)
				for format, how := range others {
					file := w.fetch(t, w.link(t, s.id, "?format="+format), name+"-v1."+format)
					unpackAll(t, s.want, how, file)
				}
			})
		}
		t.Run("Node", func(t *testing.T) { t.Parallel(); checkNode(t, samples) })
		t.Run("browser", func(t *testing.T) { t.Parallel(); w.checkBrowser(t, samples) })
	})
}

// unpacker is a program that unpacks an archive to its working directory.
type unpacker struct {
	name    string
	sees    func(path string, e entry) entry // returns the properties of an entry that the program keeps
	command []string                         // FILE stands for the path of the archive
}

const pythonUntar = `
import sys, tarfile
with tarfile.open(sys.argv[1], "r:*") as t:
    t.extractall(".", **({"filter": "fully_trusted"} if hasattr(tarfile, "data_filter") else {}))
`

var tarGzips = []unpacker{
	{"tar", unchanged, []string{"tar", "-xpzf", "FILE", "--no-same-owner"}},
	{"bsdtar", asBSDTar, []string{"bsdtar", "-xpf", "FILE", "--no-same-owner"}},
	{"Python", asPython, []string{"python3", "-c", pythonUntar, "FILE"}},
}

var others = map[string][]unpacker{
	"tar": {
		{"bsdtar of tar", asBSDTar, []string{"bsdtar", "-xpf", "FILE", "--no-same-owner"}},
	},
	"tar.zst": {
		{"zstd and tar", unchanged, []string{"bash", "-c", `set -o pipefail; zstd -dcq "$0" | tar -xpf - --no-same-owner`, "FILE"}},
	},
	"zip": {
		{"unzip", asUnzip, []string{"unzip", "-q", "-^", "FILE"}},
		{"bsdtar of zip", asBSDUnzip, []string{"bsdtar", "-xpf", "FILE", "--no-same-owner"}},
	},
}

func unpackAll(t *testing.T, want listing, how []unpacker, file string) {
	for _, u := range how {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{}, u.command...)
			for i := range args {
				if args[i] == "FILE" {
					args[i] = file
				}
			}
			into := t.TempDir()
			if out, code := (program{t, into}).run(args[0], args[1:]...); code != 0 && !emptyZip(u.name, want, code) {
				t.Fatalf("%s failed with %d\n%s", args[0], code, installation.Tail(string(out), 1000))
			}
			wantSame(t, u.name, want.as(u.sees), list(t, into).as(u.sees))
		})
	}
}

// emptyZip reports whether code is the exit code with which unzip warns about an empty
// zip.
func emptyZip(program string, want listing, code int) bool {
	return program == "unzip" && len(want) == 0 && code == 1
}

func wantSame(t testing.TB, who string, want, got listing) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s unpacked another tree (-want +got):\n%.4000s", who, diff)
	}
}

// checkResumed checks that curl can resume a download that the proxy has interrupted
// four times.
func (w *service) checkResumed(t *testing.T, s sample) {
	whole, err := os.ReadFile(s.file)
	installation.Check(t, err)
	dir := t.TempDir()
	file, have := filepath.Join(dir, "resumed"), 0
	for range 4 {
		part := 1 + rand.IntN(max(1, (len(whole)-have)/2))
		_, code := program{t, dir}.run("curl", quiet("-C", "-", "-o", file, "-H", fmt.Sprintf("%s: %d", cutHeader, part), s.link)...)
		if code != 18 {
			t.Fatalf("curl exited with %d after an interruption %d bytes after %d of %d", code, part, have, len(whole))
		}
		have += part
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(whole[:have], got) {
			t.Fatalf("after %d bytes the file has %d, or different ones, %v", have, len(got), err)
		}
	}
	program{t, dir}.must("curl", quiet("-C", "-", "-o", file, s.link)...)
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(whole, got) {
		t.Errorf("a resumed download of %d bytes has %d, or different ones, %v", len(whole), len(got), err)
	}
}

// checkNode unpacks the downloaded archives with Node.js and compares the listings.
func checkNode(t *testing.T, samples map[string]sample) {
	dir := t.TempDir()
	for _, name := range []string{"untar.mjs", "list.mjs"} {
		b, err := testdata.ReadFile("testdata/" + name)
		installation.Check(t, err)
		installation.Check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	args := []string{"list.mjs"}
	for _, s := range samples {
		args = append(args, s.file)
	}
	found := parseListings(t, program{t, dir}.must("node", args...))
	for name, s := range samples {
		wantSame(t, "Node in "+name, s.want, found[s.file])
	}
	if len(found) != len(samples) {
		t.Errorf("Node read %d archives of %d", len(found), len(samples))
	}
}

var inPage = regexp.MustCompile(`(?s)<pre id="listings">(.*?)</pre>`)

// checkBrowser downloads and unpacks the archives in a page in Chromium and compares
// the listings.
func (w *service) checkBrowser(t *testing.T, samples map[string]sample) {
	links := url.Values{}
	for name, s := range samples {
		links.Set(name, s.link)
	}
	home := newFolder(t)
	out := program{t, home}.must("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-proxy-server",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--user-data-dir="+filepath.Join(home, "data"), "--dump-dom", w.front+"/page/page.html?"+links.Encode())
	found := inPage.FindSubmatch(out)
	if found == nil {
		t.Fatalf("the page is %.2000s", out)
	}
	all := parseListings(t, []byte(html.UnescapeString(string(found[1]))))
	for name, s := range samples {
		wantSame(t, "the browser in "+name, s.want, all[name])
	}
	if len(all) != len(samples) {
		t.Errorf("the browser read %d archives of %d", len(all), len(samples))
	}
}

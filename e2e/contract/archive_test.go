package contract_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// entry is an entry of a tar archive.
type entry struct {
	Name string
	Type byte // 0 means tar.TypeReg
	Text string
	Mode int64
	Link string
	Time time.Time
}

var someTime = time.Unix(1767366245, 0).UTC()

// pack returns an uncompressed tar archive with the entries. By default, an entry is a
// regular file with mode 0644 and the time someTime.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.Name, Typeflag: e.Type, Mode: e.Mode, Linkname: e.Link, Size: int64(len(e.Text)), ModTime: e.Time, Format: tar.FormatPAX}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if h.ModTime.IsZero() {
			h.ModTime = someTime
		}
		check(t, tw.WriteHeader(h))
		_, err := io.WriteString(tw, e.Text)
		check(t, err)
	}
	check(t, tw.Close())
	return out.Bytes()
}

// files returns an entry for each file in all, which maps names to texts. The entries
// are sorted by name.
func files(all object) (entries []entry) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		entries = append(entries, entry{Name: name, Text: all[name].(string)})
	}
	return entries
}

func gzipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	_, err := zw.Write(raw)
	check(t, errors.Join(err, zw.Close()))
	return out.Bytes()
}

func zstandard(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zw, err := zstd.NewWriter(&out)
	check(t, err)
	_, err = zw.Write(raw)
	check(t, errors.Join(err, zw.Close()))
	return out.Bytes()
}

// unpack reads a tar.gz archive and returns its entries by name, without a leading "./"
// and without the trailing slash of folders.
func unpack(t testing.TB, raw []byte) map[string]entry {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	check(t, err)
	tr, all := tar.NewReader(zr), map[string]entry{}
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		check(t, err)
		text := readAll(t, tr)
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		if _, twice := all[name]; twice {
			t.Errorf("the archive has %q twice", name)
		}
		all[name] = entry{Name: name, Type: h.Typeflag, Text: string(text), Mode: h.Mode & 0o7777, Link: h.Linkname, Time: h.ModTime.UTC()}
	}
	_, err = io.Copy(io.Discard, zr) // verifies the checksum at the end of the gzip stream
	check(t, err)
	return all
}

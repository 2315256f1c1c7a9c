package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
)

func TestDownloadSum(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	digest := stored(t, l, "", anyBytes()[:12]...).Digest
	ask := func(l *files.Library, f files.Format, size int64, compute bool) (string, bool) {
		t.Helper()
		sum, known, err := l.DownloadSum(t.Context(), org, digest, f, size, compute)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sum), known
	}
	for _, f := range []files.Format{files.TarGzip, files.Tar, files.Zip} {
		whole := download(t, l, digest, f)
		size, want := int64(len(whole)), fmt.Sprintf("%x", sha256.Sum256(whole))
		if _, known := ask(l, f, size, false); known {
			t.Errorf("%s: the hash is known although it was never computed", f)
		}
		if got, known := ask(l, f, size, true); !known || got != want {
			t.Errorf("%s: the hash is %s, %v, want %s", f, got, known, want)
		}
		for name, l := range map[string]*files.Library{"this": l, "another": newLibrary(t, s, files.Options{})} {
			if got, known := ask(l, f, size, false); !known || got != want {
				t.Errorf("%s: to %s process the hash is %s, %v, want %s", f, name, got, known, want)
			}
		}
		key := fmt.Sprintf("%s/digests/%s.%s", org, digest, f)
		if of, d, ok := files.ParseDerivedKey(key); of != org || d != digest || !ok {
			t.Errorf("%s was made from %s, %s, %v", key, of, d, ok)
		}
		// A stored hash is ignored if it is damaged or belongs to another size. The
		// size differs if the tree was deleted and then stored in other segments.
		for _, left := range []string{fmt.Sprintf("%x %d\n", sha256.Sum256(nil), size+1), "x", ""} {
			s.objects[key] = []byte(left)
			l := newLibrary(t, s, files.Options{})
			if _, known := ask(l, f, size, false); known {
				t.Errorf("%s: %q is accepted as its hash", f, left)
			}
			if got, known := ask(l, f, size, true); !known || got != want {
				t.Errorf("%s: after %q the hash is %s, %v", f, left, got, known)
			}
			if got := string(s.objects[key]); got != fmt.Sprintf("%s %d\n", want, size) {
				t.Errorf("%s: %q became %q", f, left, got)
			}
		}
	}
	if _, _, err := l.DownloadSum(t.Context(), org, "../x", files.Tar, 1, true); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("of no digest: %v", err)
	}
}

// halted is a store in which reads of the packs of org wait until goOn is closed.
type halted struct {
	*memory
	goOn chan struct{}
}

func (h halted) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if strings.HasPrefix(key, org+"/packs/") {
		<-h.goOn
	}
	return h.memory.Get(ctx, key, offset, n)
}

// TestHashingDoesNotBlockOthers requests hashes while the hash of another download is
// computed. A request of the same organisation waits for a limited time and returns no
// hash. A request of another organisation returns its hash at once.
func TestHashingDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := halted{newMemory(), make(chan struct{})}
		l := newLibrary(t, s, files.Options{})
		mine := stored(t, newLibrary(t, s.memory, files.Options{}), "", item{name: "a", body: text(1, 100)}).Digest
		const other = "org_01jd0000000000000000000001"
		ref, err := l.CommitArchive(t.Context(), other, "", files.Tar, bytes.NewReader(tarOf(t, item{name: "b"})))
		if err != nil {
			t.Fatal(err)
		}
		ask := func(ctx context.Context, org, digest string, f files.Format) (bool, error) {
			_, known, err := l.DownloadSum(ctx, org, digest, f, 1, true)
			return known, err
		}
		var long sync.WaitGroup
		long.Go(func() {
			if known, err := ask(t.Context(), org, mine, files.Tar); !known || err != nil {
				t.Errorf("what takes long: %v, %v", known, err)
			}
		})
		synctest.Wait()
		before := time.Now()
		if known, err := ask(t.Context(), other, ref.Digest, files.Tar); !known || err != nil || time.Since(before) > 0 {
			t.Errorf("another organisation's, after %v: %v, %v", time.Since(before), known, err)
		}
		if known, err := ask(t.Context(), org, mine, files.Zip); known || err != nil {
			t.Errorf("another of the organisation: %v, %v", known, err)
		}
		if waited := time.Since(before); waited == 0 || waited > time.Minute {
			t.Errorf("it waited for %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ask(ctx, org, mine, files.Zip); !errors.Is(err, context.Canceled) {
			t.Errorf("after a cancellation: %v", err)
		}
		close(s.goOn)
		long.Wait()
		if known, err := ask(t.Context(), org, mine, files.Zip); !known || err != nil {
			t.Errorf("after the slot was released: %v, %v", known, err)
		}
	})
}

func TestParseDerivedKey(t *testing.T) {
	t.Parallel()
	d := strings.Repeat("ab", 32)
	for key, want := range map[string]bool{
		org + "/archives/" + d + ".tar.gz": true, org + "/digests/" + d + ".zip": true,
		org + "/archives/" + d: false, org + "/manifests/" + d + ".x": false, "x/archives/" + d + ".tar.gz": false,
		org + "/digests/short.zip": false, "": false,
	} {
		if _, _, ok := files.ParseDerivedKey(key); ok != want {
			t.Errorf("ParseDerivedKey(%q) = %v", key, ok)
		}
	}
	for _, prefix := range files.DerivedPrefixes(org) {
		if _, _, ok := files.ParseDerivedKey(prefix + d + ".tar.gz"); !ok {
			t.Errorf("there is an unknown object under %s", prefix)
		}
	}
}

// bucket is a store with direct links, from which clients download without the server.
type bucket struct{ *memory }

// TestPopularArchivesAreStored checks that a large archive is stored after its second
// download, and that a small archive is never stored.
func TestPopularArchivesAreStored(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, bucket{s}, files.Options{})
	large := stored(t, l, "", item{name: "large", body: noise(1, 9<<20)}).Digest
	small := stored(t, l, "", item{name: "small"}).Digest
	link := func(digest string) string {
		t.Helper()
		if err := l.StorePopularArchives(t.Context()); err != nil {
			t.Fatal(err)
		}
		address, ok, err := l.DirectLink(t.Context(), org, digest, "x.tar.gz", time.Hour)
		if err != nil || ok != (address != "") {
			t.Fatalf("%q, %v, %v", address, ok, err)
		}
		return address
	}
	whole := download(t, l, large, files.TarGzip)
	note := func(digest string) { l.CountDownload(org, digest, int64(len(download(t, l, digest, files.TarGzip)))) }
	note(large)
	if got := link(large); got != "" {
		t.Errorf("after one download it is at %s", got)
	}
	note(large)
	key := org + "/archives/" + large + ".tar.gz"
	if got, want := link(large), "https://bucket/"+key+"?x.tar.gz,application/gzip,1h0m0s"; got != want {
		t.Errorf("after two downloads it is at %q, want %q", got, want)
	}
	if !bytes.Equal(s.objects[key], whole) {
		t.Error("another archive was put")
	}
	if sum, known, err := l.DownloadSum(t.Context(), org, large, files.TarGzip, int64(len(whole)), false); err != nil || !known || sum != sha256.Sum256(whole) {
		t.Errorf("its hash is %x, %v, %v", sum, known, err)
	}
	for range 3 {
		note(small)
	}
	l.CountDownload(org, strings.Repeat("0", 64), 9<<20) // a tree that is deleted before its archive is stored
	l.CountDownload(org, strings.Repeat("0", 64), 9<<20)
	if got := link(small); got != "" {
		t.Errorf("a small archive is at %s", got)
	}
	plain := newLibrary(t, s, files.Options{})
	if address, ok, err := plain.DirectLink(t.Context(), org, large, "x", time.Hour); ok || err != nil {
		t.Errorf("a store without links returns %q, %v", address, err)
	}
}

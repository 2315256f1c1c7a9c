package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/s3"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
)

// own returns a store with small parts and pages, and its proxy to the server. Only the
// calling test uses the proxy.
func own(t *testing.T) (*s3test.Proxy, *s3.Store) {
	t.Helper()
	server, url := s3test.Own(t)
	s := open(t, url)
	s.UseSmallParts()
	return server, s
}

func noise(n int) []byte {
	b := make([]byte, n)
	if _, err := rand.NewChaCha8([32]byte{1}).Read(b); err != nil {
		panic(err)
	}
	return b
}

func put(t *testing.T, s *s3.Store, key string, content []byte) {
	t.Helper()
	if err := s.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func read(s *s3.Store, key string) ([]byte, error) {
	r, err := s.Get(context.Background(), key, 0, -1)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

var names = map[s3test.Fault]string{
	s3test.Refuse: "refused", s3test.Drop: "dropped", s3test.Half: "broken in its body",
	s3test.Lose: "without response", s3test.Cut: "broken in its response", s3test.Flip: "with a flipped bit",
}

// nth returns a function for Proxy.Break that injects the fault f into call n only.
func nth(n int, f s3test.Fault) func(int, *http.Request) s3test.Fault {
	return func(call int, _ *http.Request) s3test.Fault {
		if call == n {
			return f
		}
		return s3test.None
	}
}

// TestPutUnderFaults injects each fault into each call of a small and of a large
// Put. Either Put succeeds and the object is whole, or Put fails and there is no
// object.
func TestPutUnderFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		content []byte
		size    int64
		calls   int
	}{
		{"small", noise(100_000), 100_000, 1},
		{"parts", noise(5<<20 + 1), -1, 5}, // head, begin, 2 parts, complete
	} {
		for fault, name := range names {
			t.Run(c.name+" "+name, func(t *testing.T) {
				t.Parallel()
				server, s := own(t)
				for call := 1; call <= c.calls; call++ {
					server.Break(nth(call, fault))
					key := fmt.Sprintf("a/%d", call)
					err := s.Put(t.Context(), key, bytes.NewReader(c.content), c.size)
					if made := server.Calls(); made < c.calls && err == nil {
						t.Errorf("the Put made %d calls, want %d or more", made, c.calls)
					}
					server.Break(nil)
					wantWholeOrNothing(t, s, key, c.content, err, fault)
				}
				// If the response to the start of an upload was lost, the upload still exists.
				if _, err := s.RemoveAbandoned(t.Context(), time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
				if left, err := s.Uploads(t.Context()); left != 0 || err != nil {
					t.Errorf("%d uploads are left, %v", left, err)
				}
			})
		}
	}
}

func wantWholeOrNothing(t *testing.T, s *s3.Store, key string, content []byte, err error, f s3test.Fault) {
	t.Helper()
	got, readErr := read(s, key)
	switch {
	case err != nil && f != s3test.Flip:
		t.Errorf("Put of %s: %v, want a retry", key, err)
	case err == nil && !bytes.Equal(got, content):
		t.Errorf("Put of %s succeeded, but it has %d of %d bytes, %v", key, len(got), len(content), readErr)
	case err != nil && !errors.Is(readErr, blob.ErrNotFound):
		t.Errorf("Put of %s: %v, but there are %d bytes, %v", key, err, len(got), readErr)
	}
}

// TestFailedPut checks that a Put leaves neither an object nor an upload if all its calls
// from a given call on fail, except the call that aborts the upload.
func TestFailedPut(t *testing.T) {
	t.Parallel()
	for from := 1; from <= 5; from++ {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			server, s := own(t)
			server.Break(func(call int, r *http.Request) s3test.Fault {
				if call >= from && r.Method != http.MethodDelete {
					return s3test.Refuse
				}
				return s3test.None
			})
			if err := s.Put(t.Context(), "a/k", bytes.NewReader(noise(5<<20+1)), -1); err == nil {
				t.Error("Put succeeded")
			}
			server.Break(nil)
			if _, err := s.Stat(t.Context(), "a/k"); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("Stat = %v, want ErrNotFound", err)
			}
			if left, err := s.Uploads(t.Context()); left != 0 || err != nil {
				t.Errorf("%d uploads are left, %v", left, err)
			}
		})
	}
}

// TestLargePutOfBrokenReaders checks that a Put leaves neither an object nor an upload if
// its reader fails, or does not return the announced number of bytes.
func TestLargePutOfBrokenReaders(t *testing.T) {
	t.Parallel()
	_, s := own(t)
	broken := errors.New("the sender went away")
	content := noise(11 << 20)
	for name, c := range map[string]struct {
		r    io.Reader
		size int64
		want string
	}{
		"fails":     {io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken)), -1, broken.Error()},
		"is longer": {bytes.NewReader(content), 11<<20 - 1, "the promised"},
		"is short":  {bytes.NewReader(content), 11<<20 + 1, "the promised"},
		"too large": {bytes.NewReader(content), 1 << 50, "more than"},
	} {
		if err := s.Put(t.Context(), "a/k", c.r, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("content that %s: %v, want %q", name, err, c.want)
		}
		if _, err := s.Stat(t.Context(), "a/k"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("content that %s: Stat = %v, want ErrNotFound", name, err)
		}
	}
	if left, err := s.Uploads(t.Context()); left != 0 || err != nil {
		t.Errorf("%d uploads are left, %v", left, err)
	}
}

// TestLargePutsRace starts two multipart uploads of the same object. Exactly one must
// succeed.
func TestLargePutsRace(t *testing.T) {
	t.Parallel()
	_, s := own(t)
	content := noise(5<<20 + 1)
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- s.Put(t.Context(), "a/k", bytes.NewReader(content), -1) }()
	}
	one, two := <-results, <-results
	if (one == nil) == (two == nil) || !errors.Is(errors.Join(one, two), blob.ErrExists) {
		t.Errorf("the writers got %v and %v, want one winner and ErrExists", one, two)
	}
	if got, err := read(s, "a/k"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("there are %d bytes, %v", len(got), err)
	}
	if left, err := s.Uploads(t.Context()); left != 0 || err != nil {
		t.Errorf("%d uploads are left, %v", left, err)
	}
}

// TestCancelledWhileSilent cancels calls while the server does not respond.
func TestCancelledWhileSilent(t *testing.T) {
	t.Parallel()
	server, s := own(t)
	put(t, s, "there", noise(10))
	calls := map[string]func(context.Context) error{
		"Put":       func(ctx context.Context) error { return s.Put(ctx, "k", bytes.NewReader(noise(10)), 10) },
		"large Put": func(ctx context.Context) error { return s.Put(ctx, "k", bytes.NewReader(noise(5<<20+1)), -1) },
		"Get":       func(ctx context.Context) error { _, err := s.Get(ctx, "there", 0, -1); return err },
		"Stat":      func(ctx context.Context) error { _, err := s.Stat(ctx, "there"); return err },
		"Delete":    func(ctx context.Context) error { return s.Delete(ctx, "there") },
		"List": func(ctx context.Context) (err error) {
			for _, err = range s.List(ctx, "") {
			}
			return err
		},
	}
	for name, call := range calls {
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("enough")
		server.Break(func(call int, r *http.Request) s3test.Fault {
			if call > 1 {
				return s3test.None
			}
			cancel(reason)
			return s3test.Silence
		})
		if err := call(ctx); !errors.Is(err, reason) {
			t.Errorf("%s = %v, want the cause of the cancellation", name, err)
		}
	}
	server.Break(nil)
	if got, err := read(s, "there"); err != nil || len(got) != 10 {
		t.Errorf("the object that was there: %d bytes, %v", len(got), err)
	}
	if _, err := s.Stat(t.Context(), "k"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat = %v, want ErrNotFound", err)
	}
}

// TestListUnderFaults injects each fault into the request of each page of a list. The list
// must still be complete.
func TestListUnderFaults(t *testing.T) {
	t.Parallel()
	server, s := own(t)
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprintf("a/%d", i))
		put(t, s, want[i], nil)
	}
	for fault, name := range names {
		for page := 1; page <= 3; page++ {
			server.Break(nth(page, fault))
			var got []string
			for info, err := range s.List(t.Context(), "a/") {
				if err != nil {
					t.Errorf("page %d %s: %v", page, name, err)
					break
				}
				got = append(got, info.Key)
			}
			if made := server.Calls(); made < 3 {
				t.Errorf("there were %d pages, want 3 or more", made)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("page %d %s (-want +got):\n%s", page, name, diff)
			}
		}
	}
}

// TestGetReconnects breaks the connection of a reader several times. The reader must
// continue at its position.
func TestGetReconnects(t *testing.T) {
	t.Parallel()
	server, s := own(t)
	content := noise(4 << 20)
	put(t, s, "a/k", content)
	for _, c := range []struct {
		name      string
		offset, n int64
	}{{"all", 0, -1}, {"from", 1000, -1}, {"range", 1000, 3 << 20}} {
		server.Break(func(call int, _ *http.Request) s3test.Fault {
			return []s3test.Fault{s3test.Refuse, s3test.Cut, s3test.Drop, s3test.Cut, s3test.Cut, s3test.None}[min(call, 6)-1]
		})
		end := int64(len(content))
		if c.n >= 0 {
			end = c.offset + c.n
		}
		r, err := s.Get(t.Context(), "a/k", c.offset, c.n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, content[c.offset:end]) {
			t.Errorf("%s: %d bytes, want %d that are the same; %v", c.name, len(got), end-c.offset, err)
		}
		if made := server.Calls(); made != 6 {
			t.Errorf("%s: %d calls, want 6", c.name, made)
		}
	}
}

// TestGetFails checks that a reader fails if the connection stays broken, or if
// the object was deleted or replaced.
func TestGetFails(t *testing.T) {
	t.Parallel()
	server, s := own(t)
	content := noise(100)
	for name, between := range map[string]func(){
		"broken":  func() {},
		"gone":    func() { must(t, s.Delete(t.Context(), "a/k")) },
		"another": func() { must(t, s.Delete(t.Context(), "a/k")); put(t, s, "a/k", noise(101)) },
	} {
		put(t, s, "a/k", content)
		server.Break(func(int, *http.Request) s3test.Fault { return s3test.Cut })
		r, err := s.Get(t.Context(), "a/k", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if name != "broken" {
			server.Break(nil)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Errorf("%s: the first bytes: %v", name, err)
		}
		between()
		rest, err := io.ReadAll(r)
		if err == nil {
			t.Errorf("%s: reading further returned %d bytes and no error", name, len(rest))
		}
		must(t, r.Close())
		server.Break(nil)
		must(t, s.Delete(t.Context(), "a/k"))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

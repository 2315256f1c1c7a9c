package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/blob"
)

func failingReader(t *testing.T, s blob.Store) {
	for _, broken := range []error{
		errors.New("the sender disconnected"),
		io.ErrUnexpectedEOF, // such as the error of a decoder for truncated input
		fmt.Errorf("the sender disconnected: %w", io.EOF),
	} {
		for _, size := range []int64{-1, 1 << 20, 2 << 20} {
			r := io.MultiReader(bytes.NewReader(noise(1, 1<<20)), iotest.ErrReader(broken))
			if err := s.Put(t.Context(), "a/k", r, size); !errors.Is(err, broken) {
				t.Errorf("Put = %v, want the reader's error", err)
			}
			wantAbsent(t, s, "a/k")
		}
	}
	put(t, s, "a/k", []byte("later"))
	wantContent(t, s, "a/k", []byte("later"))
}

func wrongSize(t *testing.T, s blob.Store) {
	for _, size := range []int64{0, 1, 9, 11, 1 << 40} {
		if err := s.Put(t.Context(), "a/k", bytes.NewReader(noise(1, 10)), size); err == nil {
			t.Errorf("Put of 10 bytes as %d succeeded", size)
		}
		wantAbsent(t, s, "a/k")
	}
}

func createOnly(t *testing.T, s blob.Store) {
	put(t, s, "a/k", []byte("first"))
	for _, second := range []string{"second", "first", ""} {
		err := s.Put(t.Context(), "a/k", bytes.NewReader([]byte(second)), int64(len(second)))
		if !errors.Is(err, blob.ErrExists) {
			t.Errorf("the second Put = %v, want ErrExists", err)
		}
	}
	wantContent(t, s, "a/k", []byte("first"))
}

func oneWinner(t *testing.T, s blob.Store) {
	const writers = 8
	results := make([]error, writers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			<-start
			content := noise(uint64(i), 300_000+i)
			results[i] = s.Put(t.Context(), "a/k", bytes.NewReader(content), -1)
		})
	}
	close(start)
	wg.Wait()
	winner := -1
	for i, err := range results {
		switch {
		case err == nil && winner < 0:
			winner = i
		case !errors.Is(err, blob.ErrExists):
			t.Errorf("writer %d: %v, want ErrExists (the winner is %d)", i, err, winner)
		}
	}
	if winner < 0 {
		t.Fatal("no writer won")
	}
	wantContent(t, s, "a/k", noise(uint64(winner), 300_000+winner))
}

func unknownLength(t *testing.T, s blob.Store) {
	content := noise(2, 20<<20)
	if err := s.Put(t.Context(), "big", iotest.HalfReader(bytes.NewReader(content)), -1); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "big", content)
	if err := s.Put(t.Context(), "none", bytes.NewReader(nil), -1); err != nil {
		t.Fatal(err)
	}
	wantContent(t, s, "none", nil)
}

func cancelledMidway(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := io.MultiReader(bytes.NewReader(noise(1, 1<<20)), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	}), bytes.NewReader(noise(2, 1<<20)))
	if err := s.Put(ctx, "a/k", r, 2<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	wantAbsent(t, s, "a/k")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func list(t *testing.T, s blob.Store) {
	inOrder := []string{
		"a", "a-b", "a-b/x", "a.b", "a/b", "a/b-c", "a/b/c", "a/b0", "a0", "a_b",
		"org_1/manifests/aa", "org_1/packs/01", "org_1/packs/02", "org_10/packs/01", "z",
	}
	for _, i := range []int{7, 2, 14, 0, 9, 4, 1, 12, 3, 11, 6, 5, 10, 13, 8} {
		put(t, s, inOrder[i], []byte(inOrder[i]))
	}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"", inOrder},
		{"a", inOrder[:10]},
		{"a/", inOrder[4:8]},
		{"a/b", inOrder[4:8]},
		{"a/b/", inOrder[6:7]},
		{"a-b", inOrder[1:3]},
		{"org_1/", inOrder[10:13]},
		{"org_1/packs/", inOrder[11:13]},
		{"org_1/packs/0", inOrder[11:13]},
		{"org_1/packs/02", inOrder[12:13]},
		{"org_1", inOrder[10:14]},
		{"zz", nil},
		{"z/", nil},
		{"nothing/here/", nil},
		{"../", nil},
		{"/", nil},
		{"a/../", nil},
		{"A", nil},
	} {
		if diff := cmp.Diff(c.want, keysUnder(t, s, c.prefix)); diff != "" {
			t.Errorf("List(%q) (-want +got):\n%s", c.prefix, diff)
		}
	}
	for info, err := range s.List(t.Context(), "") {
		if err != nil || info.Size != int64(len(info.Key)) {
			t.Errorf("List returned %+v, %v", info, err)
		}
	}
}

func listStops(t *testing.T, s blob.Store) {
	for _, key := range []string{"a/1", "a/2", "b/3"} {
		put(t, s, key, nil)
	}
	var seen []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, info.Key); len(seen) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"a/1", "a/2"}, seen); diff != "" {
		t.Errorf("the first two (-want +got):\n%s", diff)
	}
}

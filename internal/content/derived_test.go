package content_test

import (
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/content"
)

func digests(list ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, d := range list {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func TestCollectDerived(t *testing.T) {
	t.Parallel()
	blobs := newMemory()
	l := newLibrary(t, blobs, content.Options{})
	live, dead := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	for _, key := range []string{"archives/" + live + ".tar.gz", "archives/" + dead + ".tar.gz", "digests/" + dead + ".zip", "packs/" + dead} {
		if err := blobs.Put(t.Context(), org+"/"+key, strings.NewReader("12345"), 5); err != nil {
			t.Fatal(err)
		}
	}
	freed, err := l.CollectDerived(t.Context(), org, digests(live, live))
	if err != nil || freed != 10 {
		t.Fatalf("freed %d, %v", freed, err)
	}
	var left []string
	for info, err := range blobs.List(t.Context(), org) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, strings.TrimPrefix(info.Key, org+"/"))
	}
	if diff := cmp.Diff([]string{"archives/" + live + ".tar.gz", "packs/" + dead}, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	failing := func(yield func(string, error) bool) { yield("", io.ErrUnexpectedEOF) }
	if _, err := l.CollectDerived(t.Context(), org, failing); err == nil {
		t.Error("it deleted without knowing what is named")
	}
}

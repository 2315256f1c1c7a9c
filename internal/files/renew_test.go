package files_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// TestCollectionBetweenCommitAndPublish begins a collection between the commit of
// a tree and its publication. The collection marks the new root, so the tree cannot
// be published. After Renew it can be published, and no file is lost.
func TestCollectionBetweenCommitAndPublish(t *testing.T) {
	t.Parallel()
	for name, confidential := range map[string]bool{"plain": false, "confidential": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNames()
			l, open, secret := twoStores(t, n)
			rests, other := open, secret
			if confidential {
				rests, other = secret, open
			}
			ref := fromDir(t, l, "", map[string]string{"a": "1", "b/c": "2"}, files.DirOptions{Confidential: confidential, Verify: confidential})
			want := readArchive(t, l, ref.Digest)
			collect := func() files.CollectResult {
				t.Helper()
				done, err := l.Collect(t.Context(), org, n, files.CollectOptions{Grace: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				return done
			}
			if done := collect(); done.Marked != 1 {
				t.Fatalf("%+v: want the root marked", done)
			}
			if err := n.name(ref); !errors.Is(err, store.ErrEpoch) {
				t.Fatalf("naming it under a former epoch: %v", err)
			}
			ref, err := l.Renew(t.Context(), org, ref)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.name(ref); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				collect()
			}
			if got := readArchive(t, l, ref.Digest); !bytes.Equal(got, want) {
				t.Error("the tree is not what it was")
			}
			root := org + "/manifests/" + ref.Digest + ".1"
			if keys := rests.keys(); !slices.Contains(keys, root) || slices.Contains(keys, org+"/manifests/"+ref.Digest) {
				t.Errorf("in its store there are %v", keys)
			}
			if keys := other.keys(); len(keys) > 0 {
				t.Errorf("in the other store there are %v", keys)
			}
		})
	}
}

// TestParentRootIsReplaced stores a tree again, and collects garbage, while a
// commit reads the tree as its parent. The tree gets another root, and objects that
// only its former root referred to are deleted.
func TestParentRootIsReplaced(t *testing.T) {
	t.Parallel()
	items := []item{{name: "a", body: text(1, 300)}, {name: "b", body: text(2, 300)}}
	disturbed := 0
	for step := 1; step < 12; step++ {
		w := newWorld(t, t)
		parent := w.withNewRoot(items)
		w.steps.left, w.steps.then = step, func() {
			disturbed++
			w.commit(w.plain, "", items)
			for range 3 {
				w.collect(w.plain)
			}
		}
		w.commit(w.lib, parent, append(slices.Clone(items), item{name: "c", body: text(3, 300)}))
		w.steps.then = nil
		w.check()
	}
	if disturbed < 5 {
		t.Errorf("only %d commits were disturbed", disturbed)
	}
}

// withNewRoot returns the digest of a tree whose first root was marked, replaced by
// a second root, and deleted. An earlier tree contains the same chunks, so the
// tree's pages are in a pack without chunks.
func (w *world) withNewRoot(items []item) (digest string) {
	w.commit(w.plain, "", append(slices.Clone(items), item{name: "z", body: text(26, 300)}))
	ref, err := w.plain.CommitArchive(w.ctx, org, "", files.Tar, bytes.NewReader(plainTar(w.t, items)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.collect(w.plain)
	w.commit(w.plain, "", items)
	w.collect(w.plain)
	w.collect(w.plain) // deletes the first root
	if keys := w.store.keys(); !slices.Contains(keys, org+"/manifests/"+ref.Digest+".1") {
		w.t.Fatalf("the tree has no second root: %v", keys)
	}
	return ref.Digest
}

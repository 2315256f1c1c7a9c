package sqltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// MigrateLineage checks that the migration that adds the history of versions finds the
// parents of old versions, and that later versions continue this history. downgrade is as for
// MigrateMounts.
func MigrateLineage(t testing.TB, s store.Store, downgrade func(statements ...string) store.Store) {
	t.Helper()
	h := &lineageHistory{TB: t, s: s, at: now(), worker: Worker(t, s)}
	h.set = store.FileSet{OrgID: Org, FileSet: stint.FileSet{ID: ids.New(stint.PrefixArtifact), Name: "out", Kind: stint.Artifacts, CreatedAt: h.at, UpdatedAt: h.at}}
	if err := s.CreateFileSet(t.Context(), h.set); err != nil {
		t.Fatal(err)
	}
	v1 := h.push()
	early, late := h.start(`{"name":"out","latest":true}`), h.start(`{"name":"out","latest":true}`)
	v2 := h.finish(early, stint.Completed, v1)
	fork := h.start(fmt.Sprintf(`{"name":"out","digest":"%s"}`, h.digest(1)))
	failing := h.start(`{"name":"out","latest":true}`)
	v3 := h.finish(fork, stint.Completed, v1)
	v4 := h.finish(failing, stint.Failed, v2)
	resumed := h.start(fmt.Sprintf(`{"name":"out","digest":"%s"}`, h.digest(4)))
	v5 := h.push()
	v6 := h.finish(resumed, stint.Completed, v4)
	v7 := h.finish(late, stint.Completed, v1)
	v8 := h.push()
	before := h.versions()
	h.s = downgrade(undoFrom(8)...)
	if diff := cmp.Diff(before, h.versions()); diff != "" {
		t.Errorf("versions after the migration (-before +after):\n%s", diff)
	}
	parents := map[string]string{}
	for _, v := range before {
		if v.ParentVersionID != nil {
			parents[v.ID] = *v.ParentVersionID
		}
	}
	if diff := cmp.Diff(map[string]string{v2: v1, v3: v1, v4: v2, v5: v3, v6: v4, v7: v1, v8: v7}, parents); diff != "" {
		t.Errorf("parents (-want +got):\n%s", diff)
	}
	h.worker = Worker(t, h.s)
	for _, c := range []struct {
		base  string
		moved bool
	}{{v8, false}, {v8, true}, {v6, true}} {
		r := h.end(h.start(`{"name":"out","latest":true}`), stint.Completed, c.base)
		if (r.HeadMovedFrom != nil) != c.moved {
			t.Errorf("from %s: the head moved from %v", c.base, r.HeadMovedFrom)
		}
	}
}

// lineageHistory makes versions of an artifact. Each change is one second after the
// previous one.
type lineageHistory struct {
	testing.TB
	s      store.Store
	at     stint.Time
	worker string
	set    store.FileSet
	count  int
}

func (h *lineageHistory) digest(n int) string { return fmt.Sprintf("%064x", n) }

func (h *lineageHistory) commit() store.Commit {
	h.count++
	h.at = stint.TimeOf(h.at.Add(time.Second))
	return store.Commit{
		OrgID: Org, FileSetID: h.set.ID, Suffix: strings.Repeat("a", 20), Digest: h.digest(h.count), CreatedBy: "user:bee", CreatedAt: h.at,
	}
}

func (h *lineageHistory) push() string {
	h.Helper()
	v, _, err := h.s.CommitVersion(h.Context(), h.commit())
	if err != nil {
		h.Fatal(err)
	}
	return v.ID
}

func (h *lineageHistory) start(artifact string) store.Claim {
	h.Helper()
	h.at = stint.TimeOf(h.at.Add(time.Second))
	n := NewRun(0)
	n.Spec = json.RawMessage(`{"definition":{"artifact":{"path":"/out"}},"artifact":` + artifact + `,"timeout":1}`)
	claims, err := h.s.CreateRun(h.Context(), n, &store.ClaimRequest{WorkerID: h.worker, Max: 1, At: h.at})
	if err != nil || len(claims) != 1 {
		h.Fatalf("%d claims, %v", len(claims), err)
	}
	return claims[0]
}

func (h *lineageHistory) end(c store.Claim, status stint.Status, base string) store.Run {
	h.Helper()
	commit := h.commit()
	commit.CreatedBy, commit.Parent = "run:"+c.Run.ID, base
	r, err := h.s.Finish(h.Context(), c.Position, store.Outcome{
		Token: "t", Status: status, At: h.at, Version: &store.RunVersion{Artifact: h.set, Commit: commit},
	})
	if err != nil {
		h.Fatal(err)
	}
	return r
}

func (h *lineageHistory) finish(c store.Claim, status stint.Status, base string) string {
	h.Helper()
	return *h.end(c, status, base).ArtifactVersion
}

func (h *lineageHistory) versions() []store.FileSetVersion {
	h.Helper()
	list, err := h.s.FileSetVersions(h.Context(), Org, h.set.ID, store.Range{Limit: 100})
	if err != nil {
		h.Fatal(err)
	}
	return list
}

package sqltest

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// MigrateMounts checks that the migration that creates the table mounts records the mounts
// of pending runs. downgrade runs statements that undo the migration. It then opens the
// database again, which repeats the migration, and returns the new store.
func MigrateMounts(t testing.TB, s store.Store, downgrade func(statements ...string) store.Store) {
	t.Helper()
	tree := store.FileSet{OrgID: Org, FileSet: stint.FileSet{ID: ids.New(stint.PrefixVolume), Name: "data", Kind: stint.Volumes, CreatedAt: now(), UpdatedAt: now()}}
	if err := s.CreateFileSet(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, c := range []string{"a", "b", "c"} {
		v, _, err := s.CommitVersion(t.Context(), store.Commit{OrgID: Org, FileSetID: tree.ID, Suffix: strings.Repeat(c, 20), Digest: c, CreatedAt: now()})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v.ID)
	}
	runs := []store.NewRun{NewRun(1), NewRun(1), NewRun(1)}
	runs[0].Volumes, runs[1].Volumes = map[string]string{"data": versions[0]}, map[string]string{"data": versions[1]}
	for _, n := range runs {
		if _, err := s.CreateRun(t.Context(), n, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Cancel(t.Context(), Org, runs[1].ID, now()); err != nil {
		t.Fatal(err)
	}
	s = downgrade(undoFrom(5)...)
	if err := s.DeleteVersion(t.Context(), Org, tree.ID, versions[0]); !errors.Is(err, store.ErrInUse) {
		t.Errorf("deleting the version of a pending run: %v", err)
	}
	if err := s.DeleteVersion(t.Context(), Org, tree.ID, versions[1]); err != nil {
		t.Errorf("deleting the version of an ended run: %v", err)
	}
}

package maintenance_test

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/files/index"
	"github.com/stint-dev/stint/internal/maintenance"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type world struct {
	*testing.T
	store   store.Store
	blobs   *localfs.Store
	library *files.Library
	service *maintenance.Service
	ids     *stint.IDs
	org     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, ids: stint.NewIDs(time.Now, rand.Reader)}
	var err error
	w.store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{})
	w.must(err)
	w.blobs, err = localfs.Open(t.TempDir())
	w.must(err)
	t.Cleanup(func() { w.must(errors.Join(w.store.Close(), w.blobs.Close())) })
	w.library, err = files.New(w.blobs, files.Options{TempDir: t.TempDir()})
	w.must(err)
	w.service = maintenance.New(maintenance.Config{Store: w.store, Library: w.library, IDs: w.ids})
	w.org = w.member("acme")
	return w
}

// member creates an organisation with one member and returns the organisation's ID.
func (w *world) member(org string) string {
	w.Helper()
	m, err := w.store.EnsureMember(w.Context(), store.Member{
		OrgID: w.ids.New(stint.PrefixOrg), OrgName: org, UserID: w.ids.New(stint.PrefixUser), UserName: "ann",
		Role: "owner", CreatedAt: stint.TimeOf(time.Now()),
	})
	w.must(err)
	return m.OrgID
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// results runs a job and returns its final reports, one for each organisation.
func results(t *testing.T, job func(func(maintenance.Report)) error) []maintenance.Report {
	t.Helper()
	var done []maintenance.Report
	if err := job(func(l maintenance.Report) {
		if l.Done {
			done = append(done, l)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return done
}

// storeUnreferenced stores a snapshot that no version refers to.
func (w *world) storeUnreferenced(org string) {
	w.Helper()
	dir := w.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "f"), []byte("unreferenced"), 0o600))
	_, err := w.library.CommitDir(w.Context(), org, "", dir, files.DirOptions{})
	w.must(err)
}

func (w *world) objects() (n int) {
	w.Helper()
	for _, err := range w.blobs.List(w.Context(), w.org) {
		w.must(err)
		n++
	}
	return n
}

func TestCollectAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.storeUnreferenced(w.org)
	before := w.objects()
	collect := func(o maintenance.CollectOptions) []maintenance.Report {
		return results(t, func(report func(maintenance.Report)) error { return w.service.Collect(t.Context(), o, report) })
	}
	if got := collect(maintenance.CollectOptions{DryRun: true}); got[0].Collected.Deleted != 0 || w.objects() != before {
		t.Errorf("a dry run deleted something: %+v", got[0].Collected)
	}
	if got := collect(maintenance.CollectOptions{Grace: time.Hour}); got[0].Collected.Deleted != 0 || w.objects() != before {
		t.Errorf("an object was deleted within the grace period: %+v", got[0].Collected)
	}
	got := collect(maintenance.CollectOptions{})
	if got[0].Collected.Deleted != int64(before) || got[0].Collected.Freed <= 0 || w.objects() != 0 {
		t.Errorf("%d objects are left of %d: %+v", w.objects(), before, got[0].Collected)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, err := w.store.LeaseCollection(t.Context(), w.org, "another", time.Hour)
	if err != nil || !mine {
		t.Fatalf("no lease: %v", err)
	}
	jobs := map[string]func(func(maintenance.Report)) error{
		"Collect": func(report func(maintenance.Report)) error {
			return w.service.Collect(t.Context(), maintenance.CollectOptions{}, report)
		},
		"Check": func(report func(maintenance.Report)) error {
			return w.service.Check(t.Context(), maintenance.CheckOptions{}, report)
		},
	}
	for name, job := range jobs {
		if diff := cmp.Diff([]maintenance.Report{{Org: w.org, Done: true, Busy: true}}, results(t, job)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err = w.store.LeaseCollection(t.Context(), w.org, "another", 0)
	w.must(err)
	for name, job := range jobs {
		if got := results(t, job); len(got) != 1 || got[0].Busy {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDamageReportsTheVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref, err := w.library.CommitArchive(t.Context(), w.org, "", files.Tar, strings.NewReader(strings.Repeat("\x00", 1024)))
	w.must(err)
	tree := stint.FileSet{ID: w.ids.New(stint.PrefixVolume), Name: "data", Kind: stint.Volumes, CreatedAt: stint.TimeOf(time.Now()), UpdatedAt: stint.TimeOf(time.Now())}
	w.must(w.store.CreateFileSet(t.Context(), store.FileSet{FileSet: tree, OrgID: w.org}))
	_, _, err = w.store.CommitVersion(t.Context(), store.Commit{OrgID: w.org, FileSetID: tree.ID, Suffix: strings.Repeat("a", 20), Digest: ref.Digest, CreatedBy: "user:ann", CreatedAt: stint.TimeOf(time.Now())})
	w.must(err)
	w.must(w.blobs.Delete(t.Context(), w.org+"/manifests/"+ref.Digest))
	got := results(t, func(report func(maintenance.Report)) error {
		return w.service.Check(t.Context(), maintenance.CheckOptions{}, report)
	})
	if c := got[0].Checked; c.Damaged != 1 || len(c.Damages) != 1 || len(c.Damages[0].Used) != 1 || !strings.HasPrefix(c.Damages[0].Used[0].Name, "volume data@v1_") {
		t.Errorf("%+v", c)
	}
}

// failingStore is a blob.Store whose List fails for the objects of one organisation,
// after it has called before.
type failingStore struct {
	blob.Store
	org    string
	before func()
}

var errList = errors.New("disk failure")

func (o failingStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	if !strings.HasPrefix(prefix, o.org) {
		return o.Store.List(ctx, prefix)
	}
	return func(yield func(blob.Info, error) bool) {
		o.before()
		yield(blob.Info{}, errList)
	}
}

func TestFailureOfOneOrganisation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.member("zenith")
	orgs, err := w.store.Orgs(t.Context())
	w.must(err)
	if len(orgs) != 2 {
		t.Fatalf("the organisations are %q", orgs)
	}
	fails, works := orgs[0], orgs[1]
	w.storeUnreferenced(works)
	index, err := index.Open(t.TempDir())
	w.must(err)
	defer func() { w.must(index.Close()) }()
	before := func() {}
	library, err := files.New(failingStore{w.blobs, fails, func() { before() }}, files.Options{
		TempDir: t.TempDir(), Index: index,
		Now: func() time.Time { return time.Now().Add(48 * time.Hour) }, // so that no pack belongs to a commit in progress
	})
	w.must(err)
	service := maintenance.New(maintenance.Config{Store: w.store, Library: library, IDs: w.ids})
	var done []string
	report := func(l maintenance.Report) {
		if l.Done {
			done = append(done, l.Org)
		}
	}
	indexed := func(org string) bool {
		for range index.Packs(org) {
			return true
		}
		return false
	}
	for _, c := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"SyncIndexes", service.SyncIndexes},
		{"Check", func(ctx context.Context) error { return service.Check(ctx, maintenance.CheckOptions{}, report) }},
		{"Collect", func(ctx context.Context) error {
			return service.Collect(ctx, maintenance.CollectOptions{Grace: time.Hour}, report)
		}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		before = cancel
		if err := c.do(ctx); !errors.Is(err, context.Canceled) || indexed(works) || len(done) > 0 {
			t.Errorf("%s continues after cancellation: %q, %v", c.name, done, err)
		}
		before = func() {}
		if c.name == "SyncIndexes" {
			continue
		}
		err := c.do(t.Context())
		if !errors.Is(err, errList) || !strings.Contains(err.Error(), fails) || strings.Contains(err.Error(), works) {
			t.Errorf("%s: the error is %v", c.name, err)
		}
		if diff := cmp.Diff([]string{works}, done); diff != "" {
			t.Errorf("%s: organisations (-want +got):\n%s", c.name, diff)
		}
		done = nil
	}
	if err := service.SyncIndexes(t.Context()); !errors.Is(err, errList) || !strings.Contains(err.Error(), fails) || !indexed(works) {
		t.Errorf("SyncIndexes: %v", err)
	}
}

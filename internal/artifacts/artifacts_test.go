package artifacts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/artifacts"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/quota"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

type world struct {
	*testing.T
	artifacts *artifacts.Service
	store     store.Store
	caller    auth.Caller
	other     auth.Caller // a caller of another organisation
	at        time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := localfs.Open(filepath.Join(t.TempDir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	kept := quota.New(blobs, quota.Options{})
	library, err := files.New(kept, files.Options{TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), kept.Close(), blobs.Close()); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, store: s, at: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	ids := stint.NewIDs(w.now, rand.Reader)
	w.artifacts = artifacts.New(artifacts.Config{Store: s, Library: library, Quota: kept, IDs: ids, Now: w.now})
	for i, c := range []*auth.Caller{&w.caller, &w.other} {
		m, err := s.EnsureMember(t.Context(), store.Member{
			OrgID: ids.New(stint.PrefixOrg), OrgName: fmt.Sprint("org", i), UserID: ids.New(stint.PrefixUser), UserName: "ann",
			Role: auth.RoleOwner, CreatedAt: stint.TimeOf(w.at),
		})
		if err != nil {
			t.Fatal(err)
		}
		*c = auth.Caller{OrgID: m.OrgID, UserID: m.UserID, UserName: m.UserName, Scopes: stint.Scopes}
	}
	return w
}

func (w *world) now() time.Time { return w.at }

func codeOf(err error) string {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func (w *world) diff(what string, want, got any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (w *world) create(kind stint.FileSetKind, name string) stint.FileSet {
	w.Helper()
	w.at = w.at.Add(time.Second)
	created, err := w.artifacts.Create(w.Context(), w.caller, kind, name)
	if err != nil {
		w.Fatal(err)
	}
	return created
}

// archive returns a tar archive of files. The keys of the map are names, the values contents.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(1767366245, 0)}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func (w *world) push(kind stint.FileSetKind, id, ifMatch string, content map[string]string) (stint.FileSetVersion, bool, error) {
	w.Helper()
	w.at = w.at.Add(time.Second)
	return w.artifacts.Push(w.Context(), w.caller, kind, id, artifacts.Push{
		Format: files.Tar, Archive: bytes.NewReader(archive(w, content)), Message: "a message", IfMatch: ifMatch,
	})
}

func (w *world) mustPush(kind stint.FileSetKind, id string, content map[string]string) stint.FileSetVersion {
	w.Helper()
	v, added, err := w.push(kind, id, "", content)
	if err != nil || !added {
		w.Fatalf("push: added %v, error %v", added, err)
	}
	return v
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []stint.FileSetKind{stint.Artifacts, stint.Volumes} {
		created := w.create(kind, "data")
		w.diff("file set", stint.FileSet{ID: created.ID, Name: "data", CreatedAt: stint.TimeOf(w.at), UpdatedAt: stint.TimeOf(w.at), Kind: kind}, created)
		got, err := w.artifacts.Get(t.Context(), w.caller.OrgID, kind, created.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.diff("read back", stint.FileSetDetail{FileSet: created}, got)
		for _, spec := range []string{"", "latest", "1", "v1"} {
			if _, err := w.artifacts.Resolve(t.Context(), w.caller.OrgID, kind, created.ID, spec); codeOf(err) != stint.CodeResourceNotFound {
				t.Errorf("version %q of a new file set: %v", spec, err)
			}
		}
		if _, err := w.artifacts.Create(t.Context(), w.caller, kind, "data"); codeOf(err) != stint.CodeResourceAlreadyExists {
			t.Errorf("existing name: %v", err)
		}
	}
	if _, err := w.artifacts.Create(t.Context(), w.caller, stint.Volumes, "No Name"); codeOf(err) != stint.CodeInvalidParameter {
		t.Errorf("invalid name: %v", err)
	}
}

func TestPush(t *testing.T) {
	w := newWorld(t)
	created := w.create(stint.Volumes, "data")
	first := w.mustPush(stint.Volumes, created.ID, map[string]string{"a.txt": "one"})
	w.diff("version", stint.FileSetVersion{
		ID: first.ID, VolumeID: created.ID, Size: 3, FileCount: 1, Message: "a message", CreatedBy: "user:ann", CreatedAt: stint.TimeOf(w.at),
		Origin: stint.VersionOrigin{Type: stint.OriginPush},
	}, first)
	if len(first.ID) != len("v1_")+20 || first.ID[:3] != "v1_" {
		t.Errorf("the identifier is %q", first.ID)
	}
	same, added, err := w.push(stint.Volumes, created.ID, "", map[string]string{"a.txt": "one"})
	if err != nil || added {
		t.Errorf("equal content: added %v, error %v", added, err)
	}
	w.diff("head", first, same)
	second := w.mustPush(stint.Volumes, created.ID, map[string]string{"a.txt": "one", "b.txt": "two"})
	got, err := w.artifacts.Get(t.Context(), w.caller.OrgID, stint.Volumes, created.ID)
	if err != nil {
		t.Fatal(err)
	}
	created.CurrentVersionID, created.Size, created.FileCount, created.UpdatedAt = &second.ID, 6, 2, second.CreatedAt
	w.diff("file set", stint.FileSetDetail{FileSet: created, CurrentVersion: &second}, got)
	list, err := w.artifacts.Versions(t.Context(), w.caller.OrgID, stint.Volumes, created.ID, store.Range{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	w.diff("versions, newest first", []stint.FileSetVersion{second, first}, list)
}

func TestPushIfMatch(t *testing.T) {
	w := newWorld(t)
	created := w.create(stint.Artifacts, "out")
	if _, _, err := w.push(stint.Artifacts, created.ID, "v1_aaaaaaaaaaaaaaaaaaaa", nil); codeOf(err) != stint.CodeVersionConflict {
		t.Errorf("IfMatch without a current version: %v", err)
	}
	first := w.mustPush(stint.Artifacts, created.ID, map[string]string{"a": "1"})
	second, added, err := w.push(stint.Artifacts, created.ID, first.ID, map[string]string{"a": "2"})
	if err != nil || !added {
		t.Fatalf("IfMatch of the current version: added %v, error %v", added, err)
	}
	if _, _, err := w.push(stint.Artifacts, created.ID, first.ID, map[string]string{"a": "3"}); codeOf(err) != stint.CodeVersionConflict {
		t.Errorf("IfMatch of an older version: %v", err)
	}
	w.diff("artifact of the version", created.ID, second.ArtifactID)
}

// TestConcurrentPushes commits another version while a push reads its archive. The push
// must fail with a version conflict.
func TestConcurrentPushes(t *testing.T) {
	w := newWorld(t)
	created := w.create(stint.Volumes, "data")
	first := w.mustPush(stint.Volumes, created.ID, map[string]string{"a": "1"})
	_, _, err := w.artifacts.Push(t.Context(), w.caller, stint.Volumes, created.ID, artifacts.Push{
		Format: files.Tar, IfMatch: first.ID,
		Archive: &hook{Reader: bytes.NewReader(archive(t, map[string]string{"a": "2"})), before: func() {
			w.mustPush(stint.Volumes, created.ID, map[string]string{"a": "3"})
		}},
	})
	if codeOf(err) != stint.CodeVersionConflict {
		t.Errorf("the slower push: %v", err)
	}
}

// hook is a reader that calls before once, at the first Read.
type hook struct {
	io.Reader
	before func()
}

func (h *hook) Read(p []byte) (int, error) {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	return h.Reader.Read(p)
}

func TestInvalidPushes(t *testing.T) {
	w := newWorld(t)
	created := w.create(stint.Volumes, "data")
	for why, p := range map[string]artifacts.Push{
		"not an archive": {Format: files.Tar, Archive: bytes.NewReader([]byte("hello"))},
		"incomplete":     {Format: files.Tar, Archive: bytes.NewReader(archive(t, map[string]string{"a": "1"})[:600])},
		"outside":        {Format: files.Tar, Archive: bytes.NewReader(archive(t, map[string]string{"../a": "1"}))},
		"binary message": {Format: files.Tar, Archive: bytes.NewReader(archive(t, nil)), Message: "\xff"},
		"long message":   {Format: files.Tar, Archive: bytes.NewReader(archive(t, nil)), Message: string(make([]byte, 5000))},
	} {
		if _, _, err := w.artifacts.Push(t.Context(), w.caller, stint.Volumes, created.ID, p); codeOf(err) != stint.CodeInvalidParameter {
			t.Errorf("%s: %v", why, err)
		}
	}
	got, err := w.artifacts.Get(t.Context(), w.caller.OrgID, stint.Volumes, created.ID)
	if err != nil || got.CurrentVersionID != nil {
		t.Errorf("a version was stored: %+v, %v", got, err)
	}
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	created, elsewhere := w.create(stint.Volumes, "data"), w.create(stint.Volumes, "other")
	first := w.mustPush(stint.Volumes, created.ID, map[string]string{"a": "1"})
	second := w.mustPush(stint.Volumes, created.ID, map[string]string{"a": "2"})
	foreign := w.mustPush(stint.Volumes, elsewhere.ID, map[string]string{"a": "3"})
	for spec, want := range map[string]string{
		"": second.ID, "latest": second.ID, "2": second.ID, "v2": second.ID, second.ID: second.ID, "v1": first.ID, "1": first.ID, first.ID: first.ID,
	} {
		v, err := w.artifacts.Resolve(t.Context(), w.caller.OrgID, stint.Volumes, created.ID, spec)
		if err != nil || v.ID != want {
			t.Errorf("%q: %q, %v, want %q", spec, v.ID, err, want)
		}
	}
	for _, spec := range []string{"3", "0", "v0", "-1", "01", "v", "LATEST", "v1_", foreign.ID, first.ID[1:], first.ID + "a", "v1_AAAAAAAAAAAAAAAAAAAA", "\x00"} {
		if v, err := w.artifacts.Resolve(t.Context(), w.caller.OrgID, stint.Volumes, created.ID, spec); codeOf(err) != stint.CodeResourceNotFound {
			t.Errorf("%q: %q, %v, want not found", spec, v.ID, err)
		}
	}
}

func TestReadVersion(t *testing.T) {
	w := newWorld(t)
	created := w.create(stint.Volumes, "data")
	org := w.caller.OrgID
	w.mustPush(stint.Volumes, created.ID, map[string]string{"a.txt": "one"})
	w.mustPush(stint.Volumes, created.ID, map[string]string{"a.txt": "two", "dir/b.txt": "three"})

	page, more, err := w.artifacts.Files(t.Context(), org, stint.Volumes, created.ID, "latest", artifacts.FilePage{After: "a.txt", Limit: 1})
	if err != nil || !more || len(page) != 1 || page[0].Path != "dir" {
		t.Errorf("files after a.txt are %v, %v, %v", page, more, err)
	}
	f, entry, err := w.artifacts.Open(t.Context(), org, stint.Volumes, created.ID, "1", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	w.diff("content", "one", string(body))
	w.diff("size", int64(3), entry.Size)
	changes, more, err := w.artifacts.Diff(t.Context(), org, stint.Volumes, created.ID, "1", "2", "", 10)
	if err != nil || more {
		t.Fatal(more, err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.Change+" "+c.Path)
	}
	w.diff("changes", []string{"changed a.txt", "added dir", "added dir/b.txt"}, got)

	text, err := w.artifacts.TextDiff(t.Context(), org, stint.Volumes, created.ID, "1", "2", "a.txt")
	if err != nil {
		t.Fatal(err)
	}
	w.diff("text diff", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n", text)

	of, err := w.artifacts.Archive(t.Context(), org, stint.Volumes, created.ID, "v1", files.TarGzip)
	if err != nil {
		t.Fatal(err)
	}
	w.diff("name of the archive", "data-v1.tar.gz", of.Name())
	archive, err := of.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	header, err := tar.NewReader(zr).Next()
	if err != nil || header.Name != "a.txt" {
		t.Errorf("the archive begins with %v, %v", header, err)
	}
	if err := archive.Close(); err != nil {
		t.Error(err)
	}
}

func TestOtherOrganisationsAndKinds(t *testing.T) {
	w := newWorld(t)
	created := w.create(stint.Volumes, "data")
	w.mustPush(stint.Volumes, created.ID, map[string]string{"a": "1"})
	w.checkNotFound(w.other, stint.Volumes, created.ID)
	for _, id := range []string{created.ID, "", "art_", "x", "\x00"} {
		w.checkNotFound(w.caller, stint.Artifacts, id)
	}
	if _, err := w.artifacts.ByName(t.Context(), w.other.OrgID, stint.Volumes, "data"); codeOf(err) != stint.CodeResourceNotFound {
		t.Errorf("another organisation found the name: %v", err)
	}
	if err := w.artifacts.Delete(t.Context(), w.caller, stint.Volumes, created.ID); err != nil {
		t.Fatal(err)
	}
	w.checkNotFound(w.caller, stint.Volumes, created.ID)
	w.create(stint.Volumes, "data")
}

// checkNotFound checks that every method returns resource_not_found for a file set.
func (w *world) checkNotFound(c auth.Caller, kind stint.FileSetKind, id string) {
	w.Helper()
	ctx := w.Context()
	_, get := w.artifacts.Get(ctx, c.OrgID, kind, id)
	_, versions := w.artifacts.Versions(ctx, c.OrgID, kind, id, store.Range{Limit: 1})
	_, version := w.artifacts.Version(ctx, c.OrgID, kind, id, "latest")
	_, _, push := w.artifacts.Push(ctx, c, kind, id, artifacts.Push{Format: files.Tar, Archive: bytes.NewReader(archive(w, nil))})
	_, _, listed := w.artifacts.Files(ctx, c.OrgID, kind, id, "latest", artifacts.FilePage{Limit: 1})
	_, _, open := w.artifacts.Open(ctx, c.OrgID, kind, id, "latest", "a")
	_, _, diff := w.artifacts.Diff(ctx, c.OrgID, kind, id, "1", "1", "", 1)
	_, lines := w.artifacts.TextDiff(ctx, c.OrgID, kind, id, "1", "1", "a")
	_, arch := w.artifacts.Archive(ctx, c.OrgID, kind, id, "1", files.Zip)
	for verb, err := range map[string]error{
		"get": get, "versions": versions, "version": version, "push": push, "files": listed, "open": open, "diff": diff,
		"archive": arch, "lines": lines, "delete": w.artifacts.Delete(context.WithoutCancel(ctx), c, kind, id),
	} {
		if codeOf(err) != stint.CodeResourceNotFound {
			w.Errorf("%s of %s %q: %v, want not found", verb, kind, id, err)
		}
	}
}

package quota_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/blob/blobtest"
	"github.com/stint-dev/stint/internal/blob/localfs"
	"github.com/stint-dev/stint/internal/blob/quota"
)

func folder(t *testing.T) blob.Store {
	t.Helper()
	s, err := localfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSuite(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{New: func(t *testing.T) blob.Store {
		return quota.New(folder(t), quota.Options{Limit: 1 << 40})
	}})
}

type presigningStore struct {
	blob.Store
	blob.Presigner
}

func TestLinksOfTheStoreBelow(t *testing.T) {
	t.Parallel()
	if _, ok := quota.New(folder(t), quota.Options{}).WithLinks().(blob.Presigner); ok {
		t.Error("a folder has links")
	}
	if _, ok := quota.New(presigningStore{Store: folder(t)}, quota.Options{}).WithLinks().(blob.Presigner); !ok {
		t.Error("the links of the inner store are missing")
	}
}

func put(t *testing.T, s blob.Store, key, text string, size int64) error {
	t.Helper()
	return s.Put(t.Context(), key, strings.NewReader(text), size)
}

func wantUsage(t *testing.T, s *quota.Store, org string, want blob.Usage) {
	t.Helper()
	got, err := s.Usage(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", org, diff)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	inner := folder(t)
	if err := put(t, inner, "a/before", "12345", 5); err != nil {
		t.Fatal(err)
	}
	s := quota.New(inner, quota.Options{})
	wantUsage(t, s, "a", blob.Usage{Bytes: 5, Objects: 1})
	for _, step := range []struct {
		do   func() error
		want blob.Usage
	}{
		{func() error { return put(t, s, "a/one", "1234567", 7) }, blob.Usage{Bytes: 12, Objects: 2}},
		{func() error { return put(t, s, "a/two", "123", -1) }, blob.Usage{Bytes: 15, Objects: 3}},
		{func() error { return put(t, s, "b/one", "123", 3) }, blob.Usage{Bytes: 15, Objects: 3}},
		{func() error { return expect(put(t, s, "a/one", "another", 7), blob.ErrExists) }, blob.Usage{Bytes: 15, Objects: 3}},
		{func() error { return expect(put(t, s, "a/short", "12", 7), nil) }, blob.Usage{Bytes: 15, Objects: 3}},
		{func() error { return s.Delete(t.Context(), "a/before") }, blob.Usage{Bytes: 10, Objects: 2}},
		{func() error { return s.Delete(t.Context(), "a/before") }, blob.Usage{Bytes: 10, Objects: 2}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		wantUsage(t, s, "a", step.want)
	}
}

func TestWrapSharesAccounts(t *testing.T) {
	t.Parallel()
	inner := folder(t)
	s := quota.New(inner, quota.Options{Limit: 10})
	aside := s.Wrap(inner)
	if err := errors.Join(put(t, s, "a/one", "1234", 4), put(t, aside, "a/two", "1234", 4)); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, s, "a", blob.Usage{Bytes: 8, Objects: 2})
	if err := put(t, aside, "a/three", "1234", 4); err == nil {
		t.Error("more than the limit was stored")
	}
	if err := aside.Delete(t.Context(), "a/one"); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, s, "a", blob.Usage{Bytes: 4, Objects: 1})
}

// expect returns nil if err is the wanted error; if want is nil, any error is accepted.
// If err is nil, expect returns an error.
func expect(err, want error) error {
	if err == nil {
		return errors.New("it did not fail")
	}
	if want == nil || errors.Is(err, want) {
		return nil
	}
	return err
}

func TestLimit(t *testing.T) {
	t.Parallel()
	inner := folder(t)
	if err := put(t, inner, "a/before", "12345", 5); err != nil {
		t.Fatal(err)
	}
	s := quota.New(inner, quota.Options{Limit: 10})
	for _, size := range []int64{6, -1} {
		err := put(t, s, "a/large", "123456", size)
		if e, ok := errors.AsType[*stint.Error](err); !ok || e.Code != stint.CodeQuotaExceeded {
			t.Errorf("six bytes more, announced as %d: %v", size, err)
		}
		if _, err := s.Stat(t.Context(), "a/large"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("the refused object exists: %v", err)
		}
	}
	wantUsage(t, s, "a", blob.Usage{Bytes: 5, Objects: 1})
	if err := put(t, s, "a/fits", "12345", 5); err != nil {
		t.Error(err)
	}
	if err := put(t, s, "b/another", "1234567890", -1); err != nil {
		t.Error(err)
	}
	if err := put(t, s, "a/more", "1", 1); err == nil {
		t.Error("a byte over the limit was accepted")
	}
	if err := s.Delete(t.Context(), "a/before"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, s, "a/more", "1", 1); err != nil {
		t.Error(err)
	}
}

func TestLimitUnderConcurrency(t *testing.T) {
	t.Parallel()
	s := quota.New(folder(t), quota.Options{Limit: 50})
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			_ = put(t, s, "a/"+string(rune('a'+i)), "1234567890", int64(10-11*(i%2))) // the limit refuses 15 of the 20 puts
		})
	}
	group.Wait()
	wantUsage(t, s, "a", blob.Usage{Bytes: 50, Objects: 5})
}

func TestRecount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := folder(t)
		s := quota.New(inner, quota.Options{Recount: time.Minute})
		wantUsage(t, s, "a", blob.Usage{})
		if err := put(t, inner, "a/elsewhere", "123", 3); err != nil {
			t.Fatal(err)
		}
		wantUsage(t, s, "a", blob.Usage{})
		time.Sleep(2 * time.Minute)                          // on the fake clock of synctest
		if _, err := s.Usage(t.Context(), "a"); err != nil { // starts a recount
			t.Fatal(err)
		}
		synctest.Wait()
		wantUsage(t, s, "a", blob.Usage{Bytes: 3, Objects: 1})
	})
}

// steppedStore is a store with a List that looks up each object when the iteration reaches
// it, so changes during the iteration are visible. List calls at with the key of each
// object before it yields the object, and with an empty key at the end.
type steppedStore struct {
	blob.Store
	at         func(ctx context.Context, key string) error
	failDelete func() error // if set, replaces the deletion of a/j
}

func (l *steppedStore) Delete(ctx context.Context, key string) error {
	if key == "a/j" && l.failDelete != nil {
		return l.failDelete()
	}
	return l.Store.Delete(ctx, key)
}

func (l *steppedStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for last, more := "", true; more; {
			next, err := l.after(ctx, prefix, last)
			if err == nil {
				err = l.at(ctx, next)
			}
			if err == nil {
				next, err = l.after(ctx, prefix, last)
			}
			info := blob.Info{}
			if more = next != ""; more && err == nil {
				info, err = l.Stat(ctx, next)
			}
			if (more || err != nil) && !yield(info, err) || err != nil {
				return
			}
			last = next
		}
	}
}

func (l *steppedStore) after(ctx context.Context, prefix, last string) (string, error) {
	for info, err := range l.Store.List(ctx, prefix) {
		if err != nil || info.Key > last {
			return info.Key, err
		}
	}
	return "", nil
}

// TestCountDuringChanges puts and deletes objects with keys before and after the key that
// a running count has reached. No call waits for the count, and after the count the usage
// contains each object exactly once.
func TestCountDuringChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := &steppedStore{Store: folder(t), at: func(context.Context, string) error { return nil }}
		s := quota.New(inner, quota.Options{Limit: 100, Recount: time.Minute})
		for _, key := range []string{"a/b", "a/d", "a/f", "a/h", "a/j", "a/l"} {
			if err := put(t, s, key, "1234567", 7); err != nil {
				t.Fatal(err)
			}
		}
		wantUsage(t, s, "a", blob.Usage{Bytes: 42, Objects: 6})
		if err := put(t, inner, "a/other", "123456789", 9); err != nil {
			t.Fatal(err)
		}
		step := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		started, slow := make(chan struct{}), make(chan struct{})
		var late sync.WaitGroup
		late.Go(func() { // this Put begins before the count and ends before the count reaches a/m
			step(s.Put(t.Context(), "a/m", io.MultiReader(strings.NewReader("12"), blockedReader{started, slow}), 2))
		})
		<-started
		deleting, failed := make(chan struct{}), make(chan struct{})
		var failing sync.WaitGroup
		inner.failDelete = func() error {
			close(deleting)
			<-failed
			return errors.New("the disk is broken")
		}
		failing.Go(func() { // this Delete begins before the count and fails after the count has reached a/j
			step(expect(s.Delete(t.Context(), "a/j"), nil))
			inner.failDelete = nil
		})
		<-deleting
		inner.at = func(_ context.Context, key string) error {
			switch key {
			case "a/f": // the count has listed a/b and a/d
				step(put(t, s, "a/a", "1", 1))
				step(put(t, s, "a/k", "1", 1))
				step(put(t, s, "a/n", "1", -1))
				step(s.Delete(t.Context(), "a/b"))
				step(s.Delete(t.Context(), "a/h"))
				step(s.Delete(t.Context(), "a/a"))
				step(s.Delete(t.Context(), "a/n"))
				step(expect(put(t, s, "a/d", "1234567", 7), blob.ErrExists))
				step(expect(put(t, s, "a/large", "", 100), nil))
				wantUsage(t, s, "a", blob.Usage{Bytes: 42 + 2 + 1 - 14, Objects: 6 + 1 + 1 - 2})
				close(slow)
				late.Wait()
			case "a/l":
				close(failed)
				failing.Wait()
				step(s.Delete(t.Context(), "a/k"))
				step(put(t, s, "a/i", "1", 1))
			case "":
				step(s.Delete(t.Context(), "a/l"))
				step(s.Delete(t.Context(), "a/j"))
				step(s.Delete(t.Context(), "a/j")) // changes nothing
			}
			return nil
		}
		time.Sleep(2 * time.Minute) // on the fake clock of synctest
		wantUsage(t, s, "a", blob.Usage{Bytes: 42 + 2, Objects: 7})
		synctest.Wait()
		inner.at = func(context.Context, string) error { return nil }
		want := blob.Usage{}
		for info, err := range inner.List(t.Context(), "a/") {
			step(err)
			want.Bytes += info.Size
			want.Objects++
		}
		wantUsage(t, s, "a", want)
		step(s.Close())
	})
}

// blockedReader is a reader that closes started at its first Read, waits until end is
// closed, and returns io.EOF.
type blockedReader struct{ started, end chan struct{} }

func (b blockedReader) Read([]byte) (int, error) {
	close(b.started)
	<-b.end
	return 0, io.EOF
}

// TestOnlyFirstCountBlocks blocks all counts of objects. The first count of an
// organisation blocks Put; later counts block neither Put nor Usage.
func TestOnlyFirstCountBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		inner := &steppedStore{Store: folder(t), at: func(ctx context.Context, _ string) error {
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		s := quota.New(inner, quota.Options{Limit: 10, Recount: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Put(ctx, "a/x", strings.NewReader("1"), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a put during the first count: %v", err)
		}
		goOn <- struct{}{}
		wantUsage(t, s, "a", blob.Usage{})
		time.Sleep(2 * time.Minute) // on the fake clock of synctest
		if err := put(t, s, "a/x", "1", 1); err != nil {
			t.Fatal(err)
		}
		wantUsage(t, s, "a", blob.Usage{Bytes: 1, Objects: 1})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantUsage(t, s, "a", blob.Usage{Bytes: 1, Objects: 1})
		if _, err := s.Usage(t.Context(), "b"); err == nil {
			t.Error("Usage without a count succeeded after Close")
		}
	})
}

type failingStore struct{ blob.Store }

func (failingStore) Put(_ context.Context, _ string, r io.Reader, _ int64) error {
	_, _ = io.Copy(io.Discard, r)
	return errors.New("no space")
}

func TestFailedPutIsNotCounted(t *testing.T) {
	t.Parallel()
	s := quota.New(failingStore{folder(t)}, quota.Options{})
	for _, size := range []int64{3, -1} {
		if err := put(t, s, "a/x", "123", size); err == nil {
			t.Fatal("it did not fail")
		}
	}
	wantUsage(t, s, "a", blob.Usage{})
}

func TestUncounted(t *testing.T) {
	t.Parallel()
	inner := folder(t)
	s := quota.New(inner, quota.Options{Limit: 10, Uncounted: func(key string) bool { return strings.Contains(key, "/ours/") }})
	for _, key := range []string{"org_a/ours/x", "org_a/theirs"} {
		if err := s.Put(t.Context(), key, strings.NewReader("12345678"), 8); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range map[string]*quota.Store{"while writing": s, "by a new count": quota.New(inner, quota.Options{Uncounted: func(key string) bool { return strings.Contains(key, "/ours/") }})} {
		if err := s.Delete(t.Context(), "org_a/ours/none"); err != nil {
			t.Fatal(err)
		}
		used, err := s.Usage(t.Context(), "org_a")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(blob.Usage{Bytes: 8, Objects: 1}, used); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// damagedStore is a store with a Stat that returns blob.ErrDamaged for one key.
type damagedStore struct {
	blob.Store
	key string
}

func (d damagedStore) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := d.Store.Stat(ctx, key)
	if err == nil && key == d.key {
		err = blob.ErrDamaged
	}
	return info, err
}

func TestDamagedObjectCountsUntilDeleted(t *testing.T) {
	t.Parallel()
	s := quota.New(damagedStore{folder(t), "a/one"}, quota.Options{Limit: 10})
	if err := errors.Join(put(t, s, "a/one", "123", 3), put(t, s, "a/two", "12345", 5)); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, s, "a", blob.Usage{Bytes: 8, Objects: 2})
	if err := s.Delete(t.Context(), "a/one"); err != nil {
		t.Fatal(err)
	}
	wantUsage(t, s, "a", blob.Usage{Bytes: 5, Objects: 1})
}

// Package quota counts the stored bytes of each organisation and enforces a limit.
//
// A Store wraps another blob.Store. The first element of a key is the
// organisation. Every object, except those that Options.Uncounted excludes, counts with
// its stored size, until garbage collection deletes the object. A chunk counts once,
// regardless of how many versions contain it.
package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
)

// Options configures a Store. The zero value counts and has no limit.
type Options struct {
	Limit int64 // bytes per organisation; 0 is unlimited
	// Recount is the maximum age of a count if other processes write to the same
	// storage; 0 is unlimited.
	Recount time.Duration
	Now     func() time.Time // default: time.Now
	// Uncounted reports whether the object with the key does not count, because the
	// server stores it for its own use. If Uncounted is nil, all objects count.
	Uncounted func(key string) bool
}

// Store is a blob.Store with a quota. It is safe for concurrent use.
type Store struct {
	blob.Store
	o Options
	*accounts
}

// accounts contains the accounts of all organisations and runs their counts.
type accounts struct {
	ctx    context.Context // context of the counts; Close cancels it
	cancel context.CancelFunc
	counts sync.WaitGroup

	mu     sync.Mutex // guards the fields below; locked after account.mu
	closed bool
	byOrg  map[string]*account
}

var errClosed = errors.New("quota: the store is closed")

// New returns a Store that stores its objects in inner. The caller closes it.
func New(inner blob.Store, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Uncounted == nil {
		o.Uncounted = func(string) bool { return false }
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Store{Store: inner, o: o, accounts: &accounts{ctx: ctx, cancel: cancel, byOrg: map[string]*account{}}}
}

// Close ends the counts in progress and waits for them. Later calls that need the first
// count of an organisation fail.
func (a *accounts) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.counts.Wait()
	return nil
}

// start runs f in a goroutine for which Close waits. It returns false after Close.
func (a *accounts) start(f func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.counts.Go(func() { f(a.ctx) })
	}
	return !a.closed
}

// Wrap returns a store that stores its objects in inner and shares the accounts of s.
// inner must give access to the same objects as the inner store of s.
func (s *Store) Wrap(inner blob.Store) *Store {
	return &Store{Store: inner, o: s.o, accounts: s.accounts}
}

// WithLinks returns s as a store that implements blob.Presigner if the inner store
// implements it.
func (s *Store) WithLinks() blob.Store {
	if p, ok := s.Store.(blob.Presigner); ok {
		return struct {
			*Store
			blob.Presigner
		}{s, p}
	}
	return s
}

// Usage returns the number and size of an organisation's objects, including those that
// are being stored. The first call for an organisation waits until they are counted.
func (s *Store) Usage(ctx context.Context, org string) (blob.Usage, error) {
	a := s.account(org)
	if err := s.ready(ctx, org, a); err != nil {
		return blob.Usage{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.stored
	add(&used, a.pending.Bytes, a.pending.Objects)
	return used, nil
}

// Limit returns the limit in bytes per organisation; 0 is unlimited.
func (s *Store) Limit() int64 { return s.o.Limit }

func (a *accounts) account(org string) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.byOrg[org]
	if of == nil {
		of = &account{active: map[string]int{}}
		a.byOrg[org] = of
	}
	return of
}

// Put implements blob.Store. If the object would exceed the limit, Put returns a
// *stint.Error with KindForbidden and CodeQuotaExceeded.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	org, _, ok := strings.Cut(key, "/")
	if !ok || s.o.Uncounted(key) {
		return s.Store.Put(ctx, key, r, size)
	}
	a := s.account(org)
	if s.o.Limit > 0 {
		if err := s.ready(ctx, org, a); err != nil {
			return err
		}
	}
	m := &meter{r: r, a: a, limit: s.o.Limit}
	if err := m.add(max(size, 0), 1); err != nil {
		return err
	}
	m.sized = size >= 0
	a.begin(key)
	err := s.Store.Put(ctx, key, m, size)
	a.mu.Lock()
	defer a.mu.Unlock()
	add(&a.pending, -m.counted, -1)
	if err != nil {
		a.end(key, 0, 0)
		return err
	}
	a.end(key, m.counted, 1)
	return nil
}

// meter counts the bytes of an object while it is read.
type meter struct {
	r       io.Reader
	a       *account
	limit   int64
	sized   bool  // the size was counted before reading
	counted int64 // bytes that were added to a.pending
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if !m.sized && n > 0 {
		if exceeded := m.add(int64(n), 0); exceeded != nil {
			return n, exceeded
		}
	}
	return n, err
}

// add adds bytes and objects to the pending usage. If they would exceed the limit, add
// returns an error and adds nothing.
func (m *meter) add(bytes, objects int64) error {
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	if m.limit > 0 && m.a.stored.Bytes+m.a.pending.Bytes+bytes > m.limit {
		return errExceeded(m.limit)
	}
	add(&m.a.pending, bytes, objects)
	m.counted += bytes
	return nil
}

func errExceeded(limit int64) error {
	return &stint.Error{
		Kind: stint.KindForbidden, Code: stint.CodeQuotaExceeded,
		Message: fmt.Sprintf("Your organisation may store %s of files and this would exceed it. Delete artifacts, volumes or versions that are no longer needed, or ask the operator for more.", stint.Size(limit)),
	}
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	org, _, ok := strings.Cut(key, "/")
	if !ok || s.o.Uncounted(key) {
		return s.Store.Delete(ctx, key)
	}
	a := s.account(org)
	a.begin(key)
	info, err := s.Stat(ctx, key)
	exists := !errors.Is(err, blob.ErrNotFound)
	if err == nil || errors.Is(err, blob.ErrDamaged) {
		err = s.Store.Delete(ctx, key)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if exists && err == nil {
		a.end(key, -info.Size, -1)
		return nil
	}
	a.end(key, 0, 0)
	if !exists {
		return nil
	}
	return fmt.Errorf("deleting %q: %w", key, err)
}

package image

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// progressInterval is the interval at which Acquire calls progress.
const progressInterval = 200 * time.Millisecond

// Acquire returns the root of an image and pulls the image if necessary. If ref has
// no digest, Acquire requests the tag's digest from the registry each time. If the
// registry does not answer, Acquire returns the last known image of the tag, if
// any, with a Root.Note. If ref has a digest that is in the store, the registry is
// not used.
//
// Concurrent callers for one image share a pull, which is cancelled when no
// caller waits for it any more. progress may be nil. Acquire calls it in the
// caller's goroutine with numbers of bytes of compressed layers: half of each byte
// counts when it was fetched, the other half when it was unpacked.
//
// Errors that a user can act on are of type *stint.Error with the parameter
// "image". The caller must release the root after use.
func (s *Store) Acquire(ctx context.Context, ref string, progress func(done, total int64)) (*Root, error) {
	r, err := ParseReference(ref)
	if err != nil {
		return nil, err
	}
	digest, note, err := s.resolveTag(ctx, r)
	if err != nil {
		return nil, err
	}
	found, err := s.obtain(ctx, r, digest, progress)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.saveName(r.key(), tagRecord{Asked: digest, Image: found.marker.Digest})
	s.mu.Unlock()
	return s.newRoot(found, note), nil
}

// resolveTag returns the digest of a reference. If the registry does not answer, it
// returns the last known digest of the tag and a note for the user.
func (s *Store) resolveTag(ctx context.Context, r Reference) (digest, note string, err error) {
	if r.Digest != "" {
		return r.Digest, "", nil
	}
	digest, err = s.requestTag(ctx, r)
	if err == nil || ctx.Err() != nil || !isUnreachable(err) {
		return digest, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.names[r.key()]
	if !ok || s.roots[before.Image] == nil {
		return "", "", err
	}
	note = fmt.Sprintf("The registry %s did not answer; the image '%s' is the last known one, %s.", r.Registry, r, before.Image)
	return before.Asked, note, nil
}

// requestTag requests the digest of a tag from the registry. The request runs in a
// goroutine without ctx, because other callers share the registry's authorization,
// which must not fail when the ctx of one caller ends.
func (s *Store) requestTag(ctx context.Context, r Reference) (string, error) {
	if err := s.begin(); err != nil {
		return "", err
	}
	var digest string
	done := make(chan error, 1)
	go func() {
		defer s.work.Done()
		d, err := s.head(r)
		digest = d
		done <- err
	}()
	select {
	case err := <-done:
		return digest, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// pull is the download of one image. Several callers can wait for it.
type pull struct {
	ctx      context.Context
	cancel   context.CancelFunc
	progress progress
	waiters  int // guarded by Store.mu
}

// progress counts the bytes of compressed layers during a pull.
type progress struct{ fetched, unpacked, total atomic.Int64 }

func (p *progress) report(to func(done, total int64)) {
	if total := p.total.Load(); to != nil && total > 0 {
		to((p.fetched.Load()+p.unpacked.Load())/2, total)
	}
}

// obtain returns the root of the image with a digest, pulls the image if necessary,
// and adds one to the root's reference count.
func (s *Store) obtain(ctx context.Context, r Reference, digest string, report func(done, total int64)) (*root, error) {
	for {
		s.mu.Lock()
		if found := s.lookUp(digest); found != nil {
			found.refs++
			s.touch(found)
			s.mu.Unlock()
			return found, nil
		}
		key := r.Registry + "/" + r.Repository + "@" + digest
		p := s.pulls[key]
		if p == nil {
			p = &pull{}
			p.ctx, p.cancel = context.WithCancel(s.life)
			s.pulls[key] = p
		}
		p.waiters++
		done := s.group.DoChan(key, func() (any, error) { return s.runPull(key, p, r, digest) })
		s.mu.Unlock()
		var err error
		digest, err = waitPull(ctx, p, done, report)
		s.leavePull(key, p)
		if err != nil {
			return nil, err
		}
		// The root exists now, unless Collect has already removed it. The next
		// iteration looks it up.
	}
}

func waitPull(ctx context.Context, p *pull, done <-chan singleflight.Result, report func(done, total int64)) (digest string, err error) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.progress.report(report)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case r := <-done:
			if r.Err != nil {
				return "", r.Err
			}
			p.progress.report(report)
			return r.Val.(string), nil
		}
	}
}

// runPull pulls and installs an image and returns the digest of its manifest.
func (s *Store) runPull(key string, p *pull, r Reference, digest string) (string, error) {
	if err := s.begin(); err != nil {
		return "", err
	}
	defer s.work.Done()
	b, err := s.pull(p.ctx, r, digest, &p.progress)
	if err == nil {
		err = s.install(b)
	}
	s.clean(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetPull(key, p)
	if err != nil {
		return "", err
	}
	return b.digest, nil
}

// leavePull ends the wait of one caller for p. If no other caller waits, it cancels p.
func (s *Store) leavePull(key string, p *pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		p.cancel()
		s.forgetPull(key, p)
	}
}

// forgetPull removes p from the running pulls, so that later callers start another
// pull. The caller must hold s.mu.
func (s *Store) forgetPull(key string, p *pull) {
	if s.pulls[key] == p {
		delete(s.pulls, key)
		s.group.Forget(key)
	}
}

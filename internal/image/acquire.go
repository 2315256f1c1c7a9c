package image

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// reportEach is how often a waiting caller hears of progress.
const reportEach = 200 * time.Millisecond

// Acquire gives the root of an image, pulling it when it is not there. A tag
// is asked for at its registry each time; while the registry does not answer,
// the image that the tag was before stands in and Root.Note says so. A digest
// that is there needs no registry.
//
// Callers of one image share one pull. It goes on while any of them waits; the
// wait of each ends with its ctx. progress, which may be nil, is called from
// this goroutine with bytes of compressed layers, of which one half counts
// when it is fetched and one when it is unpacked.
//
// Errors that a user can act on are of *stint.Error with the parameter
// "image". Release the root when its last user has ended.
func (s *Store) Acquire(ctx context.Context, ref string, progress func(done, total int64)) (*Root, error) {
	r, err := ParseReference(ref)
	if err != nil {
		return nil, err
	}
	asked, note, err := s.resolve(ctx, r)
	if err != nil {
		return nil, err
	}
	found, err := s.obtain(ctx, r, asked, progress)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.saveName(r.key(), tagRecord{Asked: asked, Image: found.marker.Digest})
	s.mu.Unlock()
	return s.newRoot(found, note), nil
}

// resolve gives the digest that r stands for.
func (s *Store) resolve(ctx context.Context, r Reference) (digest, note string, err error) {
	if r.Digest != "" {
		return r.Digest, "", nil
	}
	digest, err = s.ask(ctx, r)
	if err == nil || ctx.Err() != nil || !isUnreachable(err) {
		return digest, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.names[r.key()]
	if !ok || s.roots[before.Image] == nil {
		return "", "", err
	}
	note = fmt.Sprintf("The registry %s did not answer; the image '%s' is the one that it was before, %s.", r.Registry, r, before.Image)
	return before.Asked, note, nil
}

// ask has the registry asked in a goroutine, as the answer may also serve
// others: it must not fail because this caller gave up.
func (s *Store) ask(ctx context.Context, r Reference) (string, error) {
	type answer struct {
		digest string
		err    error
	}
	got := make(chan answer, 1)
	s.mu.Lock()
	err := s.spawn(func() {
		digest, err := s.head(r)
		got <- answer{digest, err}
	})
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case a := <-got:
		return a.digest, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// flight is one pull that callers wait for.
type flight struct {
	key    string
	cancel context.CancelFunc
	gauge  gauge
	done   chan struct{}

	// Guarded by Store.mu, and fixed once done is closed.
	waiters int
	root    *root // with a use counted for each waiter
	err     error
}

// gauge counts a pull's bytes.
type gauge struct{ fetched, unpacked, total atomic.Int64 }

func (g *gauge) read() (done, total int64) {
	return (g.fetched.Load() + g.unpacked.Load()) / 2, g.total.Load()
}

// obtain gives the root of the image with the digest asked, one use counted.
func (s *Store) obtain(ctx context.Context, r Reference, asked string, progress func(done, total int64)) (*root, error) {
	s.mu.Lock()
	if found := s.lookUp(asked); found != nil {
		found.refs++
		s.touch(found)
		s.mu.Unlock()
		return found, nil
	}
	f, err := s.board(r, asked)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.await(ctx, f, progress)
}

// board joins the flight for an image, or starts it. The caller holds mu.
func (s *Store) board(r Reference, asked string) (*flight, error) {
	key := r.Registry + "/" + r.Repository + "@" + asked
	f := s.flights[key]
	if f == nil {
		ctx, cancel := context.WithCancel(s.life)
		f = &flight{key: key, cancel: cancel, done: make(chan struct{})}
		if err := s.spawn(func() { s.fly(ctx, f, r, asked) }); err != nil {
			cancel()
			return nil, err
		}
		s.flights[key] = f
	}
	f.waiters++
	return f, nil
}

// fly pulls and hands the root to all who wait. The root has a user all the
// time, so that it cannot be collected in between.
func (s *Store) fly(ctx context.Context, f *flight, r Reference, asked string) {
	defer f.cancel()
	b, err := s.pull(ctx, r, asked, &f.gauge)
	var landed *root
	if err == nil {
		landed, err = s.land(b)
	}
	s.clean(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.root, f.err = landed, err; err == nil {
		landed.refs += f.waiters
		s.unuse(landed)
	}
	if s.flights[f.key] == f {
		delete(s.flights, f.key)
	}
	close(f.done)
}

func (s *Store) await(ctx context.Context, f *flight, progress func(done, total int64)) (*root, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	tick := time.NewTicker(reportEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if done, total := f.gauge.read(); total > 0 {
				progress(done, total)
			}
		case <-ctx.Done():
			s.getOff(f)
			return nil, context.Cause(ctx)
		case <-f.done:
			if done, total := f.gauge.read(); f.err == nil && total > 0 {
				progress(done, total)
			}
			return f.root, f.err
		}
	}
}

// getOff ends a wait early. A flight without waiters is called off.
func (s *Store) getOff(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-f.done:
		if f.err == nil {
			s.unuse(f.root)
		}
		return
	default:
	}
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if s.flights[f.key] == f {
		delete(s.flights, f.key)
	}
}

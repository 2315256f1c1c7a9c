package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"golang.org/x/sync/errgroup"
)

// maxPack bounds the bytes of a pack; only a single page that is larger makes
// a larger one.
const maxPack = 16 << 20

func packKey(org, id string) string { return org + "/packs/" + id }

// packer gathers segments into packs. Eager packs go to the store while the
// commit goes on; staged ones wait until publish, all but the last in a spool.
// It serves one goroutine.
type packer struct {
	store blob.Store
	org   string
	mint  func() string
	id    string // of the pack being filled, "" = none
	buf   []byte // its segments
	foot  []byte // their records

	staged  *spool // nil where packs are eager
	waiting []stagedPack

	uploads *errgroup.Group // of eager packs, one at a time
	ctx     context.Context // of the uploads
	spare   chan []byte     // the buffer that is not being filled

	mu   sync.Mutex // guards what follows
	mine []string   // packs that the store may hold
}

// stagedPack is a complete pack in the spool.
type stagedPack struct {
	id     string
	length int64
}

func newPacker(ctx context.Context, store blob.Store, org string, mint func() string) *packer {
	p := &packer{store: store, org: org, mint: mint, spare: make(chan []byte, 1)}
	p.spare <- nil
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	return p
}

// stage makes the packs wait for publish.
func (p *packer) stage(dir string) { p.staged = &spool{dir: dir} }

// add stores a segment that s describes and tells where.
func (p *packer) add(s segment, b []byte) (place, error) {
	foot := len(p.foot) + footerRecord
	if p.id != "" && (len(p.buf)+len(b)+foot+footerTrailer > maxPack || foot > maxSegments*footerRecord) {
		if err := p.finishPack(); err != nil {
			return place{}, err
		}
	}
	if p.id == "" {
		p.id = p.mint()
	}
	p.grow(len(b))
	s.offset, s.stored = uint32(len(p.buf)), uint32(len(b))
	p.buf = append(p.buf, b...)
	p.foot = s.append(p.foot)
	return place{pack: p.id, offset: s.offset, stored: s.stored, crc: s.crc}, nil
}

// grow makes room for n bytes: in small steps for small commits, else for a
// whole pack at once.
func (p *packer) grow(n int) {
	if need := len(p.buf) + n; need > cap(p.buf) && need > maxPack/16 {
		p.buf = slices.Grow(p.buf, max(n, maxPack-len(p.buf)))
	}
}

// complete adds the footer of the open pack.
func (p *packer) complete() (id string, pack []byte) {
	pack = appendTrailer(append(p.buf, p.foot...), p.foot)
	id, p.id, p.foot = p.id, "", p.foot[:0]
	return id, pack
}

// finishPack sends the open pack on its way.
func (p *packer) finishPack() error {
	id, full := p.complete()
	if p.staged != nil {
		p.waiting = append(p.waiting, stagedPack{id, int64(len(full))})
		_, err := p.staged.Write(full)
		p.buf = full[:0]
		return err
	}
	select {
	case p.buf = <-p.spare:
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
	p.uploads.Go(func() error {
		defer func() { p.spare <- full[:0] }()
		return p.put(p.ctx, id, bytes.NewReader(full), int64(len(full)))
	})
	return nil
}

func (p *packer) put(ctx context.Context, id string, r io.Reader, n int64) error {
	err := p.store.Put(ctx, packKey(p.org, id), r, n)
	if !errors.Is(err, blob.ErrExists) {
		p.mu.Lock()
		p.mine = append(p.mine, id)
		p.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("storing a pack: %w", err)
	}
	return nil
}

// publish returns once all new packs rest in the store.
func (p *packer) publish(ctx context.Context) error {
	if p.id != "" && p.staged == nil {
		if err := p.finishPack(); err != nil {
			return errors.Join(err, p.uploads.Wait())
		}
	}
	if err := p.uploads.Wait(); err != nil {
		return err
	}
	offset := int64(0)
	for _, w := range p.waiting {
		if err := p.put(ctx, w.id, p.staged.section(offset, w.length), w.length); err != nil {
			return err
		}
		offset += w.length
	}
	if p.id == "" {
		return nil
	}
	id, last := p.complete()
	return p.put(ctx, id, bytes.NewReader(last), int64(len(last)))
}

// withdraw deletes the new packs, also when ctx has ended. No manifest may
// name them. What cannot be deleted stays as garbage.
func (p *packer) withdraw(ctx context.Context) error {
	_ = p.uploads.Wait() // a pack on its way would arrive after its deletion
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, id := range p.mine {
		errs = append(errs, p.store.Delete(ctx, packKey(p.org, id)))
	}
	return errors.Join(errs...)
}

// close waits for uploads and gives the space back.
func (p *packer) close() error {
	_ = p.uploads.Wait() // publish has reported it, or withdraw is why we close
	if p.staged == nil {
		return nil
	}
	return p.staged.Close()
}

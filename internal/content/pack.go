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

// maxPack bounds the bytes of a pack.
const maxPack = 16 << 20

func packKey(org, id string) string { return org + "/packs/" + id }

// packer gathers segments into packs. Eager packs go to the store while the
// commit goes on; staged ones wait until publish, all but the last in a spool.
// It serves one goroutine.
type packer struct {
	store blob.Store
	org   string
	mint  func() string
	ids   []string // all packs that a place may name: the parent's, then new ones
	first int      // where the new ones begin
	open  bool     // the last of ids is being filled
	buf   []byte

	staged  *spool // nil where packs are eager
	lengths []int64

	uploads *errgroup.Group // of eager packs, one at a time
	ctx     context.Context // of the uploads
	spare   chan []byte     // the buffer that is not being filled

	mu   sync.Mutex // guards what follows
	mine []string   // packs that the store may hold
}

func newPacker(ctx context.Context, store blob.Store, org string, mint func() string) *packer {
	p := &packer{store: store, org: org, mint: mint, spare: make(chan []byte, 1)}
	p.spare <- nil
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	return p
}

// stage makes the packs wait for publish.
func (p *packer) stage(dir string) { p.staged = &spool{dir: dir} }

// inherit makes places of the parent's packs valid. It comes first.
func (p *packer) inherit(ids []string) {
	p.ids = append(p.ids, ids...)
	p.first = len(p.ids)
}

// add stores a segment and tells where.
func (p *packer) add(segment []byte) (place, error) {
	if p.open && len(p.buf)+len(segment) > maxPack {
		if err := p.finishPack(); err != nil {
			return place{}, err
		}
	}
	if !p.open {
		p.ids = append(p.ids, p.mint())
		p.open = true
	}
	p.grow(len(segment))
	at := place{pack: uint32(len(p.ids) - 1), offset: uint32(len(p.buf)), stored: uint32(len(segment))}
	p.buf = append(p.buf, segment...)
	return at, nil
}

// grow makes room for n bytes: in small steps for small commits, else for a
// whole pack at once.
func (p *packer) grow(n int) {
	if need := len(p.buf) + n; need > cap(p.buf) && need > maxPack/16 {
		p.buf = slices.Grow(p.buf, maxPack-len(p.buf))
	}
}

// finishPack sends the open pack on its way.
func (p *packer) finishPack() error {
	p.open = false
	if p.staged != nil {
		p.lengths = append(p.lengths, int64(len(p.buf)))
		_, err := p.staged.Write(p.buf)
		p.buf = p.buf[:0]
		return err
	}
	full, id := p.buf, p.ids[len(p.ids)-1]
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
	if p.open && p.staged == nil {
		if err := p.finishPack(); err != nil {
			return errors.Join(err, p.uploads.Wait())
		}
	}
	if err := p.uploads.Wait(); err != nil {
		return err
	}
	offset := int64(0)
	for i, n := range p.lengths {
		if err := p.put(ctx, p.ids[p.first+i], p.staged.section(offset, n), n); err != nil {
			return err
		}
		offset += n
	}
	if !p.open {
		return nil
	}
	p.open = false
	return p.put(ctx, p.ids[len(p.ids)-1], bytes.NewReader(p.buf), int64(len(p.buf)))
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

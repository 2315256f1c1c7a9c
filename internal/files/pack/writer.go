package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/spool"
	"golang.org/x/sync/errgroup"
)

// packer gathers segments into packs. Eager packs go to the store while the
// commit goes on; staged ones wait until publish. It serves one goroutine.
type Writer struct {
	Store  blob.Store
	org    string
	mint   func() string
	out    *spool.Spool // the pack being filled, and those staged before it
	begin  int64        // where it begins in out
	id     string       // its ID, "" = none
	foot   []byte       // the records of its segments
	feet   *spool.Spool // those of all packs, one after the other
	made   []finishedPack
	staged bool

	uploads *errgroup.Group   // of eager packs, one at a time
	ctx     context.Context   // of the uploads
	spare   chan *spool.Spool // what is not being filled

	mu       sync.Mutex // guards what follows
	Uploaded []string   // packs that the store may hold
}

// made is a complete pack.
type finishedPack struct {
	id     string
	begin  int64 // where it begins in out, if it is staged
	length int64 // bytes of it
	foot   int64 // bytes of its records
}

func NewWriter(ctx context.Context, s *Store, org, prefix string) *Writer {
	p := &Writer{
		Store: s.WriteTo(prefix), org: org, mint: func() string { return s.IDs.New(prefix) },
		out: spool.New(s.TempDir), feet: spool.New(s.TempDir), spare: make(chan *spool.Spool, 1),
	}
	p.spare <- spool.New(s.TempDir)
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	return p
}

// stage makes the packs wait for publish. It comes first.
func (p *Writer) Stage() { p.staged = true }

// add stores a segment that s describes and tells where.
func (p *Writer) Add(s format.Segment, b []byte) (format.Place, error) {
	foot := int64(len(p.foot) + format.FooterRecord)
	if p.id != "" && (p.filled()+int64(len(b))+foot+int64(format.FooterTrailer) > format.MaxPack || foot > format.MaxSegments*format.FooterRecord) {
		if err := p.finishPack(); err != nil {
			return format.Place{}, err
		}
	}
	if p.id == "" {
		p.id = p.mint()
	}
	s.Offset, s.Length = uint32(p.filled()), uint32(len(b))
	p.foot = s.Append(p.foot)
	_, err := p.out.Write(b)
	return format.Place{Pack: p.id, Offset: s.Offset, Length: s.Length, CRC: s.CRC}, err
}

// filled is how many bytes the open pack has.
func (p *Writer) filled() int64 { return p.out.Length() - p.begin }

// finishPack sends the open pack on its way.
func (p *Writer) finishPack() error {
	if _, err := p.feet.Write(p.foot); err != nil {
		return err
	}
	if _, err := p.out.Write(format.AppendTrailer(p.foot, format.FooterMagic)); err != nil {
		return err
	}
	full := finishedPack{id: p.id, begin: p.begin, length: p.filled(), foot: int64(len(p.foot))}
	p.made = append(p.made, full)
	p.id, p.foot = "", p.foot[:0]
	if p.staged {
		p.begin = p.out.Length()
		return nil
	}
	out := p.out
	select {
	case p.out = <-p.spare:
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
	p.uploads.Go(func() error {
		defer func() { p.spare <- out }()
		defer out.Reset()
		return p.put(p.ctx, full.id, out.Section(0, full.length), full.length)
	})
	return nil
}

func (p *Writer) put(ctx context.Context, id string, r io.Reader, n int64) error {
	err := p.Store.Put(ctx, PackKey(p.org, id), r, n)
	if !errors.Is(err, blob.ErrExists) {
		p.mu.Lock()
		p.Uploaded = append(p.Uploaded, id)
		p.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("storing a pack: %w", err)
	}
	return nil
}

// publish returns once all new packs rest in the store.
func (p *Writer) Publish(ctx context.Context) error {
	if p.id != "" {
		if err := p.finishPack(); err != nil {
			return errors.Join(err, p.uploads.Wait())
		}
	}
	if err := p.uploads.Wait(); err != nil {
		return err
	}
	if !p.staged {
		return nil
	}
	for _, m := range p.made {
		if err := p.put(ctx, m.id, p.out.Section(m.begin, m.length), m.length); err != nil {
			return err
		}
	}
	return nil
}

// learn tells the index about the new packs, which must be stored. What fails
// is left for Library.Sync.
func (p *Writer) AddToIndex(x ChunkIndex) {
	if x == nil {
		return
	}
	at := int64(0)
	for _, m := range p.made {
		foot := make([]byte, m.foot)
		if _, err := p.feet.ReadAt(foot, at); err != nil {
			return
		}
		at += m.foot
		segments, err := format.DecodeSegments(foot, m.length-m.foot-int64(format.FooterTrailer))
		if err != nil {
			return
		}
		_ = x.Add(p.org, m.id, ChunksOf(segments))
	}
}

// withdraw deletes the new packs, also when ctx has ended. No manifest may
// name them. What cannot be deleted stays as garbage.
func (p *Writer) Withdraw(ctx context.Context) error {
	_ = p.uploads.Wait() // a pack on its way would arrive after its deletion
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, id := range p.Uploaded {
		errs = append(errs, p.Store.Delete(ctx, PackKey(p.org, id)))
	}
	return errors.Join(errs...)
}

// close waits for uploads and gives the space back.
func (p *Writer) Close() error {
	_ = p.uploads.Wait() // publish has reported it, or withdraw is why we close
	errs := []error{p.out.Close(), p.feet.Close()}
	for len(p.spare) > 0 {
		errs = append(errs, (<-p.spare).Close())
	}
	return errors.Join(errs...)
}

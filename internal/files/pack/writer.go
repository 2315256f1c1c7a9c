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

// Writer collects segments in packs. It uploads each full pack in the background,
// unless Stage was called: then all packs wait for Publish. It is not safe for
// concurrent use.
type Writer struct {
	Store  blob.Store
	org    string
	mint   func() string
	out    *spool.Spool // the pack being filled, after staged packs
	begin  int64        // offset of the pack being filled
	id     string       // ID of the pack being filled; "" if there is none
	foot   []byte       // the records of the segments in this pack
	feet   *spool.Spool // the records of all packs, one after the other
	made   []finishedPack
	staged bool

	uploads *errgroup.Group   // background uploads, one at a time
	ctx     context.Context   // of the uploads
	spare   chan *spool.Spool // the spool that is not being filled

	mu       sync.Mutex // guards the fields below
	Uploaded []string   // new packs that the store may hold
}

// finishedPack is a complete pack.
type finishedPack struct {
	id     string
	begin  int64 // offset in out, if it is staged
	length int64 // bytes of the pack
	foot   int64 // bytes of its records
}

// NewWriter returns a writer of packs with names that begin with prefix.
func NewWriter(ctx context.Context, s *Store, org, prefix string) *Writer {
	p := &Writer{
		Store: s.WriteTo(prefix), org: org, mint: func() string { return s.IDs.New(prefix) },
		out: spool.New(s.TempDir), feet: spool.New(s.TempDir), spare: make(chan *spool.Spool, 1),
	}
	p.spare <- spool.New(s.TempDir)
	p.uploads, p.ctx = errgroup.WithContext(ctx)
	return p
}

// Stage makes the packs wait for Publish. It must be called before Add.
func (p *Writer) Stage() { p.staged = true }

// Add adds the segment b to a pack and returns its place. s describes the segment
// except for its offset and length.
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

// filled returns the number of bytes of the pack being filled.
func (p *Writer) filled() int64 { return p.out.Length() - p.begin }

// finishPack completes the pack being filled and, unless packs are staged, begins to
// upload it.
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
	err := p.Store.Put(ctx, Key(p.org, id), r, n)
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

// Publish completes the pack being filled and returns when all new packs are stored.
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

// AddToIndex adds the new packs, which must be stored, to the index. It ignores
// errors, because SyncIndex adds the missing packs later.
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
		_ = x.Add(p.org, m.id, segments)
	}
}

// Withdraw deletes the new packs, even if ctx has ended. No manifest may refer to
// them. A pack that cannot be deleted remains until a garbage collection.
func (p *Writer) Withdraw(ctx context.Context) error {
	_ = p.uploads.Wait() // otherwise an upload could finish after the deletion
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	for _, id := range p.Uploaded {
		errs = append(errs, p.Store.Delete(ctx, Key(p.org, id)))
	}
	return errors.Join(errs...)
}

// Close waits for uploads and frees the disk space.
func (p *Writer) Close() error {
	_ = p.uploads.Wait() // reported by Publish, or the reason for Withdraw
	errs := []error{p.out.Close(), p.feet.Close()}
	for len(p.spare) > 0 {
		errs = append(errs, (<-p.spare).Close())
	}
	return errors.Join(errs...)
}

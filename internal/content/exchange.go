package content

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/content/chunkindex"
	"github.com/stint-dev/stint/internal/transfer/wire"
)

// Index finds chunks in the packs of an organisation; *chunkindex.Index is
// one. It may lose what it was told, and is told again.
type Index interface {
	Find(org string, h [32]byte) (chunkindex.Place, bool, error)
	Add(org, pack string, chunks []chunkindex.Chunk) error
	Has(org, pack string) bool
	Drop(org string, packs []string) error
}

// Two kinds of pack must be told apart before a chunk in one may be relied
// upon: a commit that fails deletes its packs again, those that came by
// PutChunks stay until a collection. The names of the latter begin so.
const sentPrefix = "sent-"

// settled is the age after which a pack belongs to no commit that is still
// going on.
const settled = 24 * time.Hour

// exchange is the part of a library that exchanges single chunks.
type exchange struct {
	index Index
	now   func() time.Time

	mu     sync.Mutex // guards looked
	looked map[string]time.Time
}

// lookAgain is how long a look at the packs of an organisation counts.
const lookAgain = 10 * time.Second

// find gives a chunk of a pack that can be relied upon.
func (l *Library) find(org string, h hash) (chunkindex.Place, bool, error) {
	if l.exchange.index == nil {
		return chunkindex.Place{}, false, nil
	}
	at, ok, err := l.exchange.index.Find(org, h)
	if err != nil {
		return at, false, fmt.Errorf("looking for a chunk: %w", err)
	}
	return at, ok, nil
}

// learn tells the index what packs hold that stay. What it does not learn is
// found later or sent again.
func (l *Library) learn(ctx context.Context, org string, packs []string) {
	if l.exchange.index == nil {
		return
	}
	for _, id := range packs {
		if err := l.learnPack(ctx, org, id); err != nil {
			return
		}
	}
}

func (l *Library) learnPack(ctx context.Context, org, id string) error {
	if l.exchange.index.Has(org, id) {
		return nil
	}
	segments, err := l.packFooter(ctx, org, id)
	if err != nil {
		return err
	}
	chunks := make([]chunkindex.Chunk, 0, len(segments))
	for _, s := range segments {
		if s.kind == chunkSegment {
			chunks = append(chunks, chunkindex.Chunk{Hash: s.hash, Offset: s.offset, Stored: s.stored, Raw: s.raw, CRC: s.crc})
		}
	}
	return l.exchange.index.Add(org, id, chunks)
}

// look tells the index about packs that it does not know: those that another
// server stored and those that it has lost. Unless urgent, it does so now and
// then only.
func (l *Library) look(ctx context.Context, org string, urgent bool) error {
	x := &l.exchange
	if x.index == nil {
		return nil
	}
	now := x.now()
	x.mu.Lock()
	recent := now.Sub(x.looked[org]) < lookAgain
	if urgent || !recent {
		x.looked[org] = now
	}
	x.mu.Unlock()
	if recent && !urgent {
		return nil
	}
	prefix, old := org+"/packs/", stint.ULIDAt(now.Add(-settled))
	for info, err := range l.blobs.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		id := strings.TrimPrefix(info.Key, prefix)
		if !strings.HasPrefix(id, sentPrefix) && id >= old {
			continue
		}
		if err := l.learnPack(ctx, org, id); err != nil && !errors.Is(err, blob.ErrNotFound) && !errors.Is(err, errDamaged) {
			return err
		}
	}
	return nil
}

// Missing gives those of the chunks that the organisation's storage lacks, in
// the order of the question.
func (l *Library) Missing(ctx context.Context, org string, chunks [][32]byte) ([][32]byte, error) {
	if err := checkOrg(org); err != nil {
		return nil, err
	}
	if err := l.look(ctx, org, false); err != nil {
		return nil, err
	}
	missing := make([][32]byte, 0, len(chunks))
	for _, h := range chunks {
		switch _, ok, err := l.find(org, h); {
		case err != nil:
			return nil, err
		case !ok:
			missing = append(missing, h)
		}
	}
	return missing, nil
}

// Put tells what PutChunks did.
type Put struct {
	Received int64 `json:"received"` // chunks
	Stored   int64 `json:"stored"`   // those that the storage lacked
}

// PutChunks stores the chunks in r, which are in the form of wire.Frame, for a
// later FromEntries. When it returns without an error they rest in the
// storage; else nothing is stored.
//
// A segment that was made elsewhere is not believed: it would become a part of
// archives, and there is no telling by its content alone that it ends where a
// block does. What is stored is made here, of the content.
func (l *Library) PutChunks(ctx context.Context, org string, r io.Reader) (done Put, err error) {
	if err := checkOrg(org); err != nil {
		return Put{}, err
	}
	packs := newPacker(ctx, l.blobs, org, func() string { return l.ids.New(sentPrefix) })
	defer func() { err = joined(err, packs.close()) }()
	packs.stage(l.tempDir)
	p := &put{lib: l, org: org, packs: packs, seen: map[hash]struct{}{}}
	frames := wire.NewFrameReader(r)
	for ctx.Err() == nil {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Put{}, refuseForm("The chunks", err)
		}
		if err := p.chunk(&f); err != nil {
			return Put{}, err
		}
	}
	if ctx.Err() != nil {
		return Put{}, context.Cause(ctx)
	}
	if err := packs.publish(ctx); err != nil {
		return Put{}, err
	}
	l.learn(ctx, org, packs.mine)
	return p.done, nil
}

// put is one PutChunks.
type put struct {
	lib   *Library
	org   string
	packs *packer
	codec Codec
	plain []byte
	seen  map[hash]struct{}
	done  Put
}

func (p *put) chunk(f *wire.Frame) error {
	if len(p.plain) < int(f.Raw) {
		p.plain = make([]byte, max(f.Raw, 64<<10))
	}
	plain := p.plain[:f.Raw]
	if err := p.codec.Chunk(plain, f.Segment, f.Hash); err != nil {
		return refuse("The chunk %x is not what its name and its length say.", f.Hash)
	}
	p.done.Received++
	if _, seen := p.seen[f.Hash]; seen {
		return nil
	}
	p.seen[f.Hash] = struct{}{}
	if _, stored, err := p.lib.find(p.org, f.Hash); err != nil || stored {
		return err
	}
	b, err := p.codec.Segment(plain)
	if err != nil {
		return err
	}
	s := segment{kind: chunkSegment, hash: sha256.Sum256(plain), raw: f.Raw, crc: crc32.ChecksumIEEE(plain)}
	if _, err := p.packs.add(s, b); err != nil {
		return err
	}
	p.done.Stored++
	return nil
}

// refuseForm says what is wrong with bytes that were received.
func refuseForm(what string, err error) error {
	var e *stint.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		e = stint.InvalidParam("body", "%s are cut short.", what)
	case errors.Is(err, wire.ErrMalformed):
		e = stint.InvalidParam("body", "%s cannot be understood: %s.", what, strings.TrimPrefix(reason(err), wire.ErrMalformed.Error()+": "))
	default:
		return fmt.Errorf("receiving: %w", err)
	}
	e.Cause = err
	return e
}

// reason is what a reader of package wire found, without where.
func reason(err error) string {
	text := err.Error()
	if i := strings.Index(text, wire.ErrMalformed.Error()); i >= 0 {
		text = text[i:]
	}
	return shown(text)
}

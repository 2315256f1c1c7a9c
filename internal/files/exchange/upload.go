package exchange

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
	"github.com/stint-dev/stint/internal/files/commit"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/gc"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// settledAge is the age from which a pack belongs to no running commit.
const settledAge = 24 * time.Hour

// packScans records when an organisation's packs were listed to update the index.
type packScans struct {
	now  func() time.Time
	mu   sync.Mutex // guards last
	last map[string]time.Time
}

// packScanInterval is the minimum time between two scans of an organisation's packs.
const packScanInterval = 10 * time.Second

// due reports whether a scan of the organisation's packs is due, and then records its
// time. If urgent is set, a scan is always due.
func (x *packScans) due(org string, urgent bool) bool {
	now := x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !urgent && now.Sub(x.last[org]) < packScanInterval {
		return false
	}
	x.last[org] = now
	return true
}

// scanPacks adds packs that are missing in the index, because another server stored
// them or because the index lost them. Unless urgent is set, scanPacks does nothing
// if the last scan was less than packScanInterval ago.
func (x *Exchanger) scanPacks(ctx context.Context, org string, urgent bool) error {
	if x.commits.Index == nil || !x.scans.due(org, urgent) {
		return nil
	}
	for info, err := range x.commits.Packs.List(ctx, pack.Key(org, "")) {
		if err != nil {
			return fmt.Errorf("listing packs: %w", err)
		}
		id := strings.TrimPrefix(info.Key, pack.Key(org, ""))
		if !x.settled(id) || x.commits.Index.Has(org, id) {
			continue
		}
		if err := x.learn(ctx, org, id); err != nil && !pack.IsDamage(err) {
			return err
		}
	}
	return nil
}

// settled reports whether a pack cannot belong to a running commit, judged by the
// name of the pack.
func (x *Exchanger) settled(packID string) bool {
	return strings.HasPrefix(packID, pack.SentPrefix) || pack.TimePart(packID) < stint.ULIDAt(x.scans.now().Add(-settledAge))
}

// available reports whether a chunk is in a pack that commits may refer to.
func (x *Exchanger) available(c *gc.Marks, h format.Hash) (bool, error) {
	if x.commits.Index == nil {
		return false, nil
	}
	chunk, ok, err := x.commits.Index.Find(c.Org, h)
	if err != nil {
		return false, fmt.Errorf("finding a chunk: %w", err)
	}
	return ok && !c.Keys[pack.Key(c.Org, chunk.Place.Pack)], nil
}

// MissingChunks returns those of the chunks that a commit could not refer to, in the
// given order: chunks that are not in the index, or are in a marked pack.
func (x *Exchanger) MissingChunks(ctx context.Context, org string, chunks [][32]byte) ([][32]byte, error) {
	if err := pack.CheckOrg(org); err != nil {
		return nil, err
	}
	if err := x.scanPacks(ctx, org, false); err != nil {
		return nil, err
	}
	marked, err := x.commits.GC.Marked(ctx, org)
	if err != nil {
		return nil, err
	}
	missing := make([][32]byte, 0, len(chunks))
	for _, h := range chunks {
		switch ok, err := x.available(&marked, h); {
		case err != nil:
			return nil, err
		case !ok:
			missing = append(missing, h)
		}
	}
	return missing, nil
}

// maxPut bounds the content of one call of PutChunks in bytes.
const maxPut = 256 << 20

// PutResult is the result of PutChunks.
type PutResult struct {
	Received int64 `json:"received"` // number of received chunks
	Stored   int64 `json:"stored"`   // number of these chunks that were not stored before
}

// PutChunks stores the chunks in r, which are frames of package treewire, for a
// later CommitEntries. After an error, none of the chunks is stored.
//
// PutChunks compresses the content again and does not store received segments:
// stored segments become parts of archives, and valid content does not prove that
// a segment ends on a block boundary.
func (x *Exchanger) PutChunks(ctx context.Context, org string, r io.Reader) (done PutResult, err error) {
	if err := pack.CheckOrg(org); err != nil {
		return PutResult{}, err
	}
	marked, err := x.commits.GC.Marked(ctx, org)
	if err != nil {
		return PutResult{}, err
	}
	packs := pack.NewWriter(ctx, x.commits.Packs, org, pack.SentPrefix)
	defer func() { err = errors.Join(err, packs.Close()) }()
	packs.Stage()
	p := &chunkUpload{x: x, marked: marked, packs: packs, seen: map[format.Hash]struct{}{}}
	frames := treewire.NewFrameReader(r)
	for ctx.Err() == nil {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return PutResult{}, malformed("The chunks", err)
		}
		if err := p.chunk(&f); err != nil {
			return PutResult{}, err
		}
	}
	if ctx.Err() != nil {
		return PutResult{}, context.Cause(ctx)
	}
	if err := packs.Publish(ctx); err != nil {
		return PutResult{}, err
	}
	packs.AddToIndex(x.commits.Index)
	return p.done, nil
}

// chunkUpload is a running PutChunks.
type chunkUpload struct {
	x        *Exchanger
	marked   gc.Marks
	packs    *pack.Writer
	codec    format.Codec
	plain    []byte
	received int64 // bytes of content
	seen     map[format.Hash]struct{}
	done     PutResult
}

func (p *chunkUpload) chunk(f *treewire.Frame) error {
	if p.received += int64(f.Raw); p.received > maxPut {
		return limits.TooLarge("The chunks have more than %d bytes. Send fewer at once.", maxPut)
	}
	if len(p.plain) < int(f.Raw) {
		p.plain = make([]byte, max(f.Raw, 64<<10))
	}
	plain := p.plain[:f.Raw]
	if err := p.codec.Chunk(plain, f.Segment, f.Hash); err != nil {
		return limits.Invalid("The chunk %x is not what its name and its length say.", f.Hash)
	}
	p.done.Received++
	if _, seen := p.seen[f.Hash]; seen {
		return nil
	}
	p.seen[f.Hash] = struct{}{}
	if stored, err := p.x.available(&p.marked, f.Hash); err != nil || stored {
		return err
	}
	b, err := p.codec.Segment(plain)
	if err != nil {
		return err
	}
	s := format.Segment{Kind: format.ChunkSegment, Hash: sha256.Sum256(plain), Size: f.Raw, CRC: crc32.ChecksumIEEE(plain)}
	if _, err := p.packs.Add(s, b); err != nil {
		return err
	}
	p.done.Stored++
	return nil
}

// malformed returns the error for received bytes that cannot be decoded. what names
// the received data in the message.
func malformed(what string, err error) error {
	var e *stint.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		e = stint.InvalidParam("body", "%s are cut short.", what)
	case errors.Is(err, treewire.ErrMalformed):
		e = stint.InvalidParam("body", "%s cannot be understood: %s.", what, strings.TrimPrefix(reason(err), treewire.ErrMalformed.Error()+": "))
	default:
		return fmt.Errorf("receiving: %w", err)
	}
	e.Cause = err
	return e
}

// reason returns the reason of a treewire error without its context.
func reason(err error) string {
	text := err.Error()
	if i := strings.Index(text, treewire.ErrMalformed.Error()); i >= 0 {
		text = text[i:]
	}
	return limits.Printable(text)
}

// Exchanger stores and sends snapshots as entries and chunks. It is safe for
// concurrent use.
type Exchanger struct {
	commits *commit.Committer
	limits  limits.Limits
	scans   packScans
}

// New returns an Exchanger that commits through c.
func New(c *commit.Committer, l limits.Limits, now func() time.Time) *Exchanger {
	return &Exchanger{commits: c, limits: l, scans: packScans{now: now, last: map[string]time.Time{}}}
}

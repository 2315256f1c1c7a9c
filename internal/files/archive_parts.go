package files

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sort"
)

// shape says how the entries of a tree become a file: for each of them a body,
// in path order, then for each of them a line of a listing, then an end. What
// it gives depends on nothing but its arguments.
type archiveShape interface {
	// body appends what stands for e.
	body(to []archivePart, e *entry) []archivePart
	// line appends what the listing says of e, whose body begins at.
	line(to []byte, e *entry, at int64) []byte
	// end is what follows a listing of so many bytes.
	end(entries, listingAt, listing int64) []byte
}

// stretch is a piece of such a file.
type archivePart struct {
	made   []byte // bytes made here, or
	chunk  *chunk // a stored chunk:
	plain  bool   // its content, else its segment
	length int64
}

func literalPart(b []byte) archivePart { return archivePart{made: b, length: int64(len(b))} }

// plan is where the parts of an assembled file lie. Marks make any place of it
// reachable without walking the tree from its start.
type archivePlan struct {
	marks     []archiveMark // one for each group of groupEntries
	listingAt int64
	listing   int64
	end       []byte
}

// mark is where a group of entries begins.
type archiveMark struct {
	after string // path of the entry before the group
	body  int64  // of its first body, in the file
	line  int64  // of its first line, in the listing
}

// groupEntries is how many entries are laid out at once: about what one read
// of a manifest brings.
const groupEntries = 512

func (p *archivePlan) size() int64 { return p.listingAt + p.listing + int64(len(p.end)) }

// makePlan measures a tree's file. The whole manifest is read for it, and no
// content.
func planArchive(ctx context.Context, m *manifest, s archiveShape) (*archivePlan, error) {
	p := &archivePlan{}
	var (
		count int64
		after string
		body  []archivePart
		line  []byte
	)
	for e, err := range m.from(ctx, "") {
		if err != nil {
			return nil, err
		}
		if count%groupEntries == 0 {
			p.marks = append(p.marks, archiveMark{after: after, body: p.listingAt, line: p.listing})
		}
		line = s.line(line[:0], e, p.listingAt)
		p.listing += int64(len(line))
		body = s.body(body[:0], e)
		p.listingAt += total(body)
		after = e.path
		count++
	}
	p.end = s.end(count, p.listingAt, p.listing)
	return p, nil
}

func total(stretches []archivePart) (n int64) {
	for i := range stretches {
		n += stretches[i].length
	}
	return n
}

// assembly reads a tree as a file of some shape. It serves one goroutine.
type assembly struct {
	ctx      context.Context // of the call that opened it: readers take none
	m        *manifest
	shape    archiveShape
	plan     *archivePlan
	fetch    packReader
	expand   expander
	position int64
	ended    error // set by Close

	// What follows is the group in hand, and the walk that it came from.
	at      int64
	parts   []archivePart
	offsets []int64 // where each part ends, from at
	next    func() (*entry, error, bool)
	stop    func()
	ahead   int // the group that next gives

	// The content of the chunk read last, and its segment.
	current *chunk
	content []byte
	segment []byte
}

func newAssembly(ctx context.Context, m *manifest, s archiveShape, p *archivePlan) *assembly {
	return &assembly{ctx: ctx, m: m, shape: s, plan: p, fetch: packReader{store: m.lib.blobs, org: m.org}}
}

// Size is the length of the whole file, in bytes.
func (a *assembly) Size() int64 { return a.plan.size() }

// Seek implements io.Seeker and costs nothing.
func (a *assembly) Seek(offset int64, whence int) (int64, error) {
	at, err := seek(a.position, a.Size(), offset, whence)
	if err != nil {
		return 0, fmt.Errorf("seeking in an archive: %w", err)
	}
	a.position = at
	return at, nil
}

// Read implements io.Reader. It fills b as long as the file goes on.
func (a *assembly) Read(b []byte) (n int, err error) {
	switch {
	case a.ended != nil:
		return 0, a.ended
	case a.position >= a.Size():
		return 0, io.EOF
	}
	for n < len(b) && a.position < a.Size() {
		if !a.inHand() {
			if err := a.load(); err != nil {
				return n, fmt.Errorf("reading an archive: %w", err)
			}
		}
		read, err := a.readPart(b[n:])
		n += read
		a.position += int64(read)
		if err != nil {
			return n, fmt.Errorf("reading an archive: %w", err)
		}
	}
	return n, nil
}

func (a *assembly) inHand() bool {
	return len(a.offsets) > 0 && a.position >= a.at && a.position < a.at+a.offsets[len(a.offsets)-1]
}

// load takes what lies at the position in hand.
func (a *assembly) load() error {
	p := a.plan
	a.parts, a.offsets = a.parts[:0], a.offsets[:0]
	endAt := p.listingAt + p.listing
	switch {
	case a.position >= endAt:
		a.at = endAt
		a.parts = append(a.parts, literalPart(p.end))
	case a.position >= p.listingAt:
		within := a.position - p.listingAt
		i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].line > within }) - 1
		a.at = p.listingAt + p.marks[i].line
		if err := a.loadLines(i); err != nil {
			return err
		}
	default:
		i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].body > a.position }) - 1
		a.at = p.marks[i].body
		if err := a.walk(i, func(e *entry) { a.parts = a.shape.body(a.parts, e) }); err != nil {
			return err
		}
	}
	var end int64
	for i := range a.parts {
		end += a.parts[i].length
		a.offsets = append(a.offsets, end)
	}
	if !a.inHand() {
		return errDamaged // the tree is another than the one that was measured
	}
	return nil
}

func (a *assembly) loadLines(i int) error {
	var lines []byte
	var body []archivePart
	at := a.plan.marks[i].body
	err := a.walk(i, func(e *entry) {
		lines = a.shape.line(lines, e, at)
		body = a.shape.body(body[:0], e)
		at += total(body)
	})
	a.parts = append(a.parts, literalPart(lines))
	return err
}

// walk calls take for every entry of a group. It goes on where the walk
// before ended, if the group comes next.
func (a *assembly) walk(group int, take func(*entry)) error {
	if a.next == nil || a.ahead != group {
		a.endWalk()
		a.next, a.stop = iter.Pull2(a.m.from(a.ctx, a.plan.marks[group].after))
	}
	a.ahead = group + 1
	for range groupEntries {
		e, err, ok := a.next()
		if err != nil {
			a.endWalk()
			return err
		}
		if !ok {
			break
		}
		take(e)
	}
	return nil
}

func (a *assembly) endWalk() {
	if a.stop != nil {
		a.stop()
	}
	a.next, a.stop = nil, nil
}

// readPart reads from the part at the position.
func (a *assembly) readPart(b []byte) (int, error) {
	at := a.position - a.at
	i := sort.Search(len(a.offsets), func(i int) bool { return a.offsets[i] > at })
	p := &a.parts[i]
	skip := at - (a.offsets[i] - p.length)
	switch {
	case p.made != nil:
		return copy(b, p.made[skip:]), nil
	case p.plain:
		if err := a.loadChunk(p.chunk); err != nil {
			return 0, err
		}
		return copy(b, a.content[skip:]), nil
	}
	b = b[:min(int64(len(b)), p.length-skip)]
	if err := a.fetch.read(a.ctx, p.chunk.at.pack, int64(p.chunk.at.offset)+skip, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// loadChunk expands a chunk and verifies it.
func (a *assembly) loadChunk(c *chunk) error {
	if a.current == c {
		return nil
	}
	a.current = nil
	a.content, a.segment = resized(a.content, int(c.raw)), resized(a.segment, int(c.at.stored))
	if err := a.fetch.read(a.ctx, c.at.pack, int64(c.at.offset), a.segment); err != nil {
		return err
	}
	if err := a.expand.chunk(a.content, a.segment, c); err != nil {
		return err
	}
	a.current = c
	return nil
}

// Close releases what reading held.
func (a *assembly) Close() error {
	if a.ended != nil {
		return nil
	}
	a.ended = errClosed
	a.endWalk()
	return a.fetch.close()
}

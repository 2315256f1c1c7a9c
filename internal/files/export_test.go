package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Parts that are worth a test of their own.
var (
	AppendRuns = appendRuns
	CombineCRC = combineCRC
	Cut        = cut
	StreamEnd  = streamEnd
)

const (
	MinChunk = minChunk
	MaxChunk = maxChunk
	MaxPack  = maxPack
	FewNames = fewNames
)

// Segment is a record of a pack's footer.
type Segment struct {
	Page                     bool
	Hash                     [32]byte
	Offset, Stored, Raw, CRC uint32
}

// PackFooter lists the segments of a pack.
func (l *Library) PackFooter(ctx context.Context, org, id string) ([]Segment, error) {
	segments, err := l.manifests.packs.footer(ctx, org, id)
	return exported(segments), err
}

func exported(segments []segment) (out []Segment) {
	for _, s := range segments {
		out = append(out, Segment{s.kind == pageSegment, s.hash, s.offset, s.stored, s.raw, s.crc})
	}
	return out
}

// DecodeFooter reads the footer of a whole pack.
func DecodeFooter(pack []byte) ([]Segment, error) {
	segments, err := decodeFooter(int64(len(pack)), func(offset, n int64) ([]byte, error) { return pack[offset:][:n], nil })
	return exported(segments), err
}

// ExpandSegment gives what a segment that is no page holds, from its bytes.
func ExpandSegment(s Segment, b []byte) ([]byte, error) {
	var x expander
	out := make([]byte, s.Raw)
	return out, x.chunk(out, b, &chunk{hash: s.Hash, raw: s.Raw})
}

// Page is what a root says of a page.
type Page struct {
	First, Pack    string
	Offset, Stored uint32
}

// Pages lists the pages of a tree.
func (l *Library) Pages(ctx context.Context, org, digest string) ([]Page, error) {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	var out []Page
	for i := range m.root.pages {
		p := &m.root.pages[i]
		out = append(out, Page{p.first, m.root.packs[p.pack], p.offset, p.stored})
	}
	return out, nil
}

// PacksOf lists the packs that a tree rests in.
func (l *Library) PacksOf(ctx context.Context, org, digest string) ([]string, error) {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	return m.root.packs, nil
}

// Reencoded reads a root without its checksum and writes it again.
func Reencoded(body []byte) ([]byte, error) {
	x, err := decodeRootBody(body)
	if err != nil {
		return nil, err
	}
	return x.appendBody(nil), nil
}

// RootBody gives what is compressed in a root.
func RootBody(object []byte) ([]byte, error) {
	z, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(object[rootHead:], nil)
}

// DecodePage reads the entries of an expanded page, whatever their hash, and
// encodes them again.
func DecodePage(b []byte) ([]byte, error) {
	entries, err := decodeEntries(b)
	if err != nil {
		return nil, err
	}
	return appendPage(nil, &packTable{}, entries), nil
}

// TarHeader is the header of a file, or of a link where there is a target.
func TarHeader(path, target string, size int64, mtime time.Time) []byte {
	e := &entry{path: path, kind: file, mode: 0o640, size: size}
	if target != "" {
		e.kind, e.target = symlink, target
	}
	e.setTime(mtime)
	return appendHeader(nil, e)
}

// LiveSegments lists the segments that a tree is made of, as pack and offset.
func (l *Library) LiveSegments(ctx context.Context, org, digest string) ([]string, error) {
	m, err := l.manifests.open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range m.root.pages {
		p := &m.root.pages[i]
		all = append(all, fmt.Sprintf("%s@%d", m.root.packs[p.pack], p.offset))
	}
	for e, err := range m.entries(ctx) {
		if err != nil {
			return nil, err
		}
		for _, c := range e.chunks {
			all = append(all, fmt.Sprintf("%s@%d", c.at.pack, c.at.offset))
		}
	}
	return all, nil
}

// StoredSegments lists the segments of an object, as pack and offset.
func (l *Library) StoredSegments(ctx context.Context, key string) ([]string, error) {
	segments, err := segmentsOf(ctx, l.manifests.packs.Store, key)
	var all []string
	for _, s := range segments {
		all = append(all, fmt.Sprintf("%s@%d", path.Base(firstKey(key)), s.offset))
	}
	return all, err
}

// AllSegments lists the segments of all packs, by their objects' keys.
func (l *Library) AllSegments(ctx context.Context, org string) map[string][]Segment {
	all := map[string][]Segment{}
	for info := range l.manifests.packs.List(ctx, org+"/packs/") {
		segments, _ := segmentsOf(ctx, l.manifests.packs.Store, info.Key)
		all[info.Key] = exported(segments)
	}
	return all
}

// ReadSegment gives the content of a chunk in a pack.
func (l *Library) ReadSegment(ctx context.Context, key string, s Segment) ([]byte, error) {
	b, err := fetch(ctx, l.manifests.packs.Store, key, int64(s.Offset), int64(s.Stored))
	if err != nil {
		return nil, err
	}
	return ExpandSegment(s, b)
}

// CheckDotted judges a link whose target goes up after a name, in a tree
// without other entries.
func CheckDotted(ctx context.Context, tempDir, path, target string) error {
	limits := &Limits{}
	limits.setDefaults()
	u := newEntrySet(limits, tempDir)
	u.dotted = []*entry{{path: path, kind: symlink, target: target}}
	return errors.Join(u.checkDotted(ctx), u.close())
}

// DottedLookups counts what is looked up to judge such a link.
func DottedLookups(path, target string) (n int) {
	walkTarget(path, target, func(at []string, known int) bool {
		n += len(at) - known
		return true
	})
	return n
}

package files

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/pack"
	"github.com/stint-dev/stint/internal/files/scan"
)

// Functions of package format that tests call directly.
var (
	AppendRuns = format.AppendRuns
	CombineCRC = format.CombineCRC
	Cut        = format.Cut
	StreamEnd  = format.StreamEnd
)

const (
	MinChunk = format.MinChunk
	MaxChunk = format.MaxChunk
	MaxPack  = format.MaxPack
)

// Segment is the record of a page or chunk in a pack's footer.
type Segment struct {
	Page                     bool
	Hash                     [32]byte
	Offset, Stored, Raw, CRC uint32
}

// PackFooter lists the segments of a pack.
func (l *Library) PackFooter(ctx context.Context, org, id string) ([]Segment, error) {
	segments, err := l.manifests.Packs.Footer(ctx, org, id)
	return exported(segments), err
}

func exported(segments []format.Segment) (out []Segment) {
	for _, s := range segments {
		out = append(out, Segment{s.Kind == format.PageSegment, s.Hash, s.Offset, s.Length, s.Size, s.CRC})
	}
	return out
}

// DecodeFooter returns the segments in the footer of a pack, given as a whole.
func DecodeFooter(packID []byte) ([]Segment, error) {
	segments, err := format.DecodeFooter(int64(len(packID)), func(offset, n int64) ([]byte, error) { return packID[offset:][:n], nil })
	return exported(segments), err
}

// ExpandSegment returns the content of a chunk from its segment.
func ExpandSegment(s Segment, b []byte) ([]byte, error) {
	var x format.Expander
	out := make([]byte, s.Raw)
	return out, x.Expand(out, b, &format.Chunk{Hash: s.Hash, Size: s.Raw})
}

// Page is the record of a page in the root of a tree.
type Page struct {
	First, Pack    string
	Offset, Stored uint32
}

// Pages lists the pages of a tree.
func (l *Library) Pages(ctx context.Context, org, digest string) ([]Page, error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	var out []Page
	for i := range m.Root.Pages {
		p := &m.Root.Pages[i]
		out = append(out, Page{p.First, m.Root.Packs[p.Pack], p.Offset, p.Length})
	}
	return out, nil
}

// PacksOf lists the packs of a tree.
func (l *Library) PacksOf(ctx context.Context, org, digest string) ([]string, error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	return m.Root.Packs, nil
}

// Reencoded decodes the expanded part of a root and encodes it again.
func Reencoded(body []byte) ([]byte, error) {
	x, err := format.DecodeRootBody(body)
	if err != nil {
		return nil, err
	}
	return x.AppendBody(nil), nil
}

// RootBody returns the expanded part of a root.
func RootBody(object []byte) ([]byte, error) {
	z, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(object[format.RootHead:], nil)
}

// DecodePage decodes the entries of an expanded page without checking their
// hash, and encodes them again.
func DecodePage(b []byte) ([]byte, error) {
	entries, err := format.DecodeEntries(b)
	if err != nil {
		return nil, err
	}
	return format.AppendPage(nil, &format.PackTable{}, entries), nil
}

// TarHeader returns the header of a file, or of a link if target is not empty.
func TarHeader(path, target string, size int64, mtime time.Time) []byte {
	e := &format.Entry{Path: path, Kind: format.File, Mode: 0o640, Size: size}
	if target != "" {
		e.Kind, e.Target = format.Symlink, target
	}
	e.SetTime(mtime)
	return format.AppendTarHeader(nil, e)
}

// LiveSegments lists the segments of the pages and chunks of a tree, as PACK@OFFSET.
func (l *Library) LiveSegments(ctx context.Context, org, digest string) ([]string, error) {
	m, err := l.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	var all []string
	for i := range m.Root.Pages {
		p := &m.Root.Pages[i]
		all = append(all, fmt.Sprintf("%s@%d", m.Root.Packs[p.Pack], p.Offset))
	}
	for e, err := range m.Entries(ctx) {
		if err != nil {
			return nil, err
		}
		for _, c := range e.Chunks {
			all = append(all, fmt.Sprintf("%s@%d", c.Place.Pack, c.Place.Offset))
		}
	}
	return all, nil
}

// StoredSegments lists the segments in the footer of a pack object, as PACK@OFFSET.
func (l *Library) StoredSegments(ctx context.Context, key string) ([]string, error) {
	segments, err := pack.ReadSegments(ctx, l.manifests.Packs.Store, key)
	var all []string
	for _, s := range segments {
		all = append(all, fmt.Sprintf("%s@%d", path.Base(pack.FirstKey(key)), s.Offset))
	}
	return all, err
}

// AllSegments lists the segments of each pack by the key of its object. It ignores errors.
func (l *Library) AllSegments(ctx context.Context, org string) map[string][]Segment {
	all := map[string][]Segment{}
	for info := range l.manifests.Packs.List(ctx, org+"/packs/") {
		segments, _ := pack.ReadSegments(ctx, l.manifests.Packs.Store, info.Key)
		all[info.Key] = exported(segments)
	}
	return all
}

// ReadSegment returns the content of a chunk in a pack.
func (l *Library) ReadSegment(ctx context.Context, key string, s Segment) ([]byte, error) {
	b, err := pack.ReadRange(ctx, l.manifests.Packs.Store, key, int64(s.Offset), int64(s.Stored))
	if err != nil {
		return nil, err
	}
	return ExpandSegment(s, b)
}

// CheckDotted checks a link with a target that contains ".." after a name. The tree has no
// other entries.
func CheckDotted(ctx context.Context, tempDir, path, target string) error {
	limits := &limits.Limits{}
	limits.SetDefaults()
	u := scan.NewEntrySet(limits, tempDir)
	u.Dotted = []*format.Entry{{Path: path, Kind: format.Symlink, Target: target}}
	return errors.Join(u.CheckDotted(ctx), u.Close())
}

// DottedLookups returns the number of lookups that CheckDotted makes for a link.
func DottedLookups(path, target string) (n int) {
	limits.WalkTarget(path, target, func(at []string, known int) bool {
		n += len(at) - known
		return true
	})
	return n
}

// Renew validates a tree and returns ref with the current epoch, as Publish does.
func (l *Library) Renew(ctx context.Context, org string, ref Ref) (Ref, error) {
	return l.collector.Renew(ctx, org, ref)
}

package stint

import (
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"time"
)

// The prefixes of identifiers.
const (
	PrefixRun          = "run_"
	PrefixAgent        = "ag_"
	PrefixAgentVersion = "agv_"
	PrefixArtifact     = "art_"
	PrefixVolume       = "vol_"
	PrefixSession      = "sess_"
	PrefixCheckpoint   = "chk_"
	PrefixToken        = "tok_"
	PrefixOrg          = "org_"
	PrefixUser         = "usr_"
	PrefixWorker       = "wrk_"
	PrefixSandbox      = "sbx_"
)

const ulidLen = 26

// crockford is the alphabet of ULIDs (https://github.com/ulid/spec), lower case.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// IDs generates identifiers: a prefix and a lower-case ULID, which sorts by time.
// The ULIDs of one IDs are unique, and each is greater than all earlier ones, even
// within a millisecond. IDs is safe for concurrent use.
type IDs struct {
	now    func() time.Time
	random io.Reader

	mu   sync.Mutex // guards last
	last [16]byte
}

// NewIDs returns a generator that uses the given clock and source of randomness,
// which is crypto/rand.Reader outside of tests.
func NewIDs(now func() time.Time, random io.Reader) *IDs {
	return &IDs{now: now, random: random}
}

// New returns a new identifier with the prefix.
func (g *IDs) New(prefix string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var id [16]byte
	ms := uint64(g.now().UnixMilli())
	if last := binary.BigEndian.Uint64(g.last[:8]) >> 16; ms <= last {
		id = g.last // same millisecond, or the clock was set back
		increment(id[6:])
	} else {
		binary.BigEndian.PutUint64(id[:8], ms<<16)
		if _, err := io.ReadFull(g.random, id[6:]); err != nil {
			panic("stint: no randomness for an identifier: " + err.Error())
		}
		id[6] &= 0x7f // leave room for increments within the millisecond
	}
	g.last = id
	return prefix + encodeULID(id)
}

func increment(b []byte) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i]++
		if b[i] != 0 {
			return
		}
	}
}

func encodeULID(id [16]byte) string {
	var out [ulidLen]byte
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

// ULIDAt returns the least ULID (26 characters, without prefix) that can be
// generated at t or later. It serves as the limit of a range of identifiers by time.
func ULIDAt(t time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return encodeULID(id)
}

// IsID reports whether s is an identifier with the prefix.
func IsID(prefix, s string) bool {
	return len(s) == len(prefix)+ulidLen && IsIDPrefix(prefix, s)
}

// IsIDPrefix reports whether s is the beginning of an identifier with the prefix: the
// prefix, and any number of the characters that follow it.
func IsIDPrefix(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) > ulidLen || rest != "" && rest[0] > '7' {
		return false
	}
	for i := range len(rest) {
		if strings.IndexByte(crockford, rest[i]) < 0 {
			return false
		}
	}
	return true
}

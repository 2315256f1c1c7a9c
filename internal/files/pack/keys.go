package pack

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
)

// ManifestKey returns the key of a tree's root.
func ManifestKey(org, digest string) string { return org + "/manifests/" + digest }

// Key returns the key of a pack.
func Key(org, id string) string { return org + "/packs/" + id }

// FirstKey returns the part of a key before its first dot: for a replacement, the key
// of the original.
func FirstKey(key string) string {
	first, _, _ := strings.Cut(key, ".")
	return first
}

// IsDigest reports whether s has the form of a digest.
func IsDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// ParseDigest decodes a digest.
func ParseDigest(s string) (h format.Hash, ok bool) {
	if !IsDigest(s) {
		return h, false
	}
	n, err := hex.Decode(h[:], []byte(s))
	return h, err == nil && n == len(h)
}

// CheckOrg returns an error unless org can be part of a key.
func CheckOrg(org string) error {
	id, ok := strings.CutPrefix(org, stint.PrefixOrg)
	if !ok || strings.Contains(id, "/") || blob.CheckKey(id) != nil {
		return fmt.Errorf("%q is not an organisation's identifier", org)
	}
	return nil
}

// SealedPrefix begins the names of confidential packs, so that their replacements
// are written to the sealed store, too.
const SealedPrefix = "sealed-"

// SentPrefix begins the names of packs that PutChunks stored. Only collections delete
// these packs, so their chunks can be reused at once. Packs of a commit cannot be
// reused at once, because a commit that fails deletes its packs.
const SentPrefix = "sent-"

// TimePart returns the name of a pack without its prefix. The result begins with
// the time at which the pack was begun, as a ULID.
func TimePart(id string) string {
	return strings.TrimPrefix(strings.TrimPrefix(id, SentPrefix), SealedPrefix)
}

// IsUniqueKey reports whether a key was generated for a single object and is never
// used for another object.
func IsUniqueKey(key string) bool {
	_, id, ok := strings.Cut(key, "/packs/")
	return ok && !strings.Contains(id, ".")
}

package pack

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files/format"
)

func ManifestKey(org, digest string) string { return org + "/manifests/" + digest }

func PackKey(org, id string) string { return org + "/packs/" + id }

func FirstKey(key string) string {
	first, _, _ := strings.Cut(key, ".")
	return first
}

func IsDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func ParseDigest(s string) (h format.Hash, ok bool) {
	if !IsDigest(s) {
		return h, false
	}
	n, err := hex.Decode(h[:], []byte(s))
	return h, err == nil && n == len(h)
}

// checkOrg keeps what becomes part of a key in its form.
func CheckOrg(org string) error {
	id, ok := strings.CutPrefix(org, stint.PrefixOrg)
	if !ok || strings.Contains(id, "/") || blob.CheckKey(id) != nil {
		return fmt.Errorf("%q is no identifier of an organisation", org)
	}
	return nil
}

// sealedPrefix begins the names of packs of what is confidential, so that what
// stands for one of them later rests where it did.
const SealedPrefix = "sealed-"

// Two kinds of pack must be told apart before a chunk in one may be relied
// upon: a commit that fails deletes its packs again, those that came by
// PutChunks stay until a collection. The names of the latter begin so.
const SentPrefix = "sent-"

// minted is the part of a pack's name that tells when it was begun.
func Minted(id string) string {
	return strings.TrimPrefix(strings.TrimPrefix(id, SentPrefix), SealedPrefix)
}

// FreshKey tells keys that are made up for one object, and never used for
// another.
func IsUniqueKey(key string) bool {
	_, id, ok := strings.Cut(key, "/packs/")
	return ok && !strings.Contains(id, ".")
}

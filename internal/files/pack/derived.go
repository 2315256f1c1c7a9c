package pack

import (
	"strings"

	"github.com/stint-dev/stint/internal/files/format"
)

// Folders of derived objects, which are made from a tree to serve it faster: the
// hashes of its downloads and its complete archive. Derived objects may be deleted at
// any time, and should be deleted after their tree.
const (
	digestsFolder  = "/digests/"
	archivesFolder = "/archives/"
)

// DigestKey returns the key of the object that stores the hash of a download.
func DigestKey(org, digest string, f format.Format) string {
	return org + digestsFolder + digest + "." + string(f)
}

// ArchiveKey returns the key of a stored tar.gz.
func ArchiveKey(org, digest string) string {
	return org + archivesFolder + digest + "." + string(format.TarGzip)
}

// DerivedPrefixes returns the prefixes of the keys of objects that are made from
// trees and can be made again.
func DerivedPrefixes(org string) []string {
	return []string{org + archivesFolder, org + digestsFolder}
}

// ParseDerivedKey returns the organisation and the digest of the tree that a derived
// object was made from. If key is not the key of a derived object, ok is false.
func ParseDerivedKey(key string) (org, digest string, ok bool) {
	for _, dir := range []string{archivesFolder, digestsFolder} {
		org, name, found := strings.Cut(key, dir)
		if !found {
			continue
		}
		digest, _, found = strings.Cut(name, ".")
		return org, digest, found && CheckOrg(org) == nil && IsDigest(digest)
	}
	return "", "", false
}

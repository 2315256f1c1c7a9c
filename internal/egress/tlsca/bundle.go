package tlsca

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
)

// bundlePaths are the files with all trusted roots of common systems.
var bundlePaths = []string{
	"etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"etc/pki/tls/certs/ca-bundle.crt",                  // older Fedora, RHEL
	"etc/ssl/ca-bundle.pem",                            // SUSE
	"var/lib/ca-certificates/ca-bundle.pem",            // SUSE without the file in /etc
	"etc/ssl/cert.pem",                                 // Alpine
	"etc/pki/tls/cacert.pem",                           // OpenELEC and similar
}

// SystemBundle returns the path of the file with the trusted roots of the system
// in the folder root, or "" if there is none. Symbolic links are resolved by the
// host, so root must be trusted.
func SystemBundle(root string) string {
	for _, p := range bundlePaths {
		path := filepath.Join(root, p)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return path
		}
	}
	return ""
}

// Bundle returns system, a file of PEM certificates, with this authority's
// certificate added if it is missing.
func (a *Authority) Bundle(system []byte) []byte {
	for block, rest := pem.Decode(system); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == certificateBlock && bytes.Equal(block.Bytes, a.cert.Raw) {
			return bytes.Clone(system)
		}
	}
	all := make([]byte, 0, len(system)+1+len(a.pem))
	all = append(all, system...)
	if len(all) > 0 && all[len(all)-1] != '\n' {
		all = append(all, '\n')
	}
	return append(all, a.pem...)
}

package tlsca

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
)

// bundlePaths contains the paths of the files with all trusted roots on common systems,
// relative to the root directory.
var bundlePaths = []string{
	"etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"etc/pki/tls/certs/ca-bundle.crt",                  // older Fedora, RHEL
	"etc/ssl/ca-bundle.pem",                            // SUSE
	"var/lib/ca-certificates/ca-bundle.pem",            // SUSE without the file in /etc
	"etc/ssl/cert.pem",                                 // Alpine
	"etc/pki/tls/cacert.pem",                           // OpenELEC and similar
}

// SystemBundle returns the path of the file with the trusted roots of the system in the
// folder root, or "" if there is none. Symbolic links in root are resolved relative to
// the host's root directory, so the content of root must be trusted.
func SystemBundle(root string) string {
	for _, p := range bundlePaths {
		path := filepath.Join(root, p)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return path
		}
	}
	return ""
}

// Bundle returns a copy of system, the content of a file of PEM certificates. If this
// authority's certificate is missing, Bundle appends it.
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

package tlsca

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
)

// bundlePaths are where systems keep their roots in one file.
var bundlePaths = []string{
	"etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
	"etc/pki/tls/certs/ca-bundle.crt",                  // older Fedora, RHEL
	"etc/ssl/ca-bundle.pem",                            // SUSE
	"var/lib/ca-certificates/ca-bundle.pem",            // SUSE, where /etc holds none
	"etc/ssl/cert.pem",                                 // Alpine
	"etc/pki/tls/cacert.pem",                           // OpenELEC and kin
}

// SystemBundle gives the path of the file below root in which the system
// there keeps the roots that it trusts; "/" is this host. It is "" where there
// is none. Links are followed as the host sees them, so root is trusted.
func SystemBundle(root string) string {
	for _, p := range bundlePaths {
		path := filepath.Join(root, p)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return path
		}
	}
	return ""
}

// Bundle gives the roots of system, a file of PEM certificates, and ours,
// which stands in it once.
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

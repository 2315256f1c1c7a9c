package layout

// Entry is a part of the system that a sandbox shows: a symbolic link or a tree
// to bind.
type Entry struct {
	Path   string // inside
	Link   string // target, if Path is a link
	File   bool
	Source string // path of the tree; Path if empty
}

// File is a small file of /etc.
type File struct {
	Name string
	Data []byte
}

// CertificateFiles are the paths of the trusted certificate authorities on
// Debian, Fedora, Alpine and OpenSSL, and SUSE. If none exists, the first is
// created.
var CertificateFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"}

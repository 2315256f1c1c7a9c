package layout

// Entry is a part of the host's system or of an image that a sandbox shows: a
// symbolic link, or a file or folder that is bind-mounted.
type Entry struct {
	Path   string // absolute path in the sandbox
	Link   string // target, if the entry is a symbolic link
	File   bool   // the entry is a regular file
	Source string // absolute path in the image; empty if the entry is a part of the host's system
}

// File is a small generated file, such as a file of /etc.
type File struct {
	Name string // path relative to the folder that contains the files, such as /etc
	Data []byte
}

// CertificateFiles are the paths of the trusted certificate authorities on Debian,
// Fedora, Alpine (also the default of OpenSSL), and SUSE, in this order. If the system
// has none of them, init creates the first.
var CertificateFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"}

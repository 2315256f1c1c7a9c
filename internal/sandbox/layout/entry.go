package layout

// Entry is a part of the system that a sandbox shows: a link, or a tree to bind.
type Entry struct {
	Path   string // inside
	Link   string // target, when Path is a link
	File   bool
	Source string // what is shown there; Path itself when empty
}

// File is a small file of /etc.
type File struct {
	Name string
	Data []byte
}

// CertificateFiles are the files in which programs look for the authorities that they
// trust: Debian's and its kin's, Fedora's, Alpine's and OpenSSL's, SUSE's. The
// first is made where there is none.
var CertificateFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"}

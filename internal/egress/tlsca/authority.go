// Package tlsca implements the interception CA. It issues certificates for hosts to
// which the proxy intercepts TLS connections.
//
// Each installation has its own certificate authority. Only the sandboxes of this
// installation trust it. Its key is stored only in the file that is passed to Open.
package tlsca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/lru"
)

const (
	caLife    = 3650 * 24 * time.Hour
	caRenewal = 30 * 24 * time.Hour // remaining validity at which an authority is replaced
	backdate  = time.Hour           // certificates begin this long before their creation, for slow clocks
)

// Authority issues certificates. Its methods are safe for concurrent use.
type Authority struct {
	now   func() time.Time
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	pem   []byte
	leafs *lru.Cache[string, *leafSlot] // certificates of hosts, by name

	// leafKey is the key of the certificates of all hosts. It exists only in this
	// process, so separate keys for hosts would not be safer.
	leafKey *ecdsa.PrivateKey
}

// Open loads the authority from the file path. If the file does not exist, Open creates
// an authority and the file; the file's folder must exist. If several callers create the
// file at the same time, all use the authority of the first caller. If the authority
// expires within 30 days, Open replaces it by a new authority, which new sandboxes trust.
// Callers that replace it at the same time may use different authorities until they open
// the file again.
//
// If users other than its owner can access the file, if it is a symbolic link, or if it
// has other content, Open returns an error with advice and does not change the file.
func Open(path string, now func() time.Time) (*Authority, error) {
	cert, key, err := loadOrCreate(path, now())
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of certificates: %w", err)
	}
	return &Authority{
		now: now, cert: cert, key: key, leafKey: leafKey, leafs: lru.New[string, *leafSlot](cacheSize),
		pem: pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: cert.Raw}),
	}, nil
}

// PEM returns the authority's certificate in PEM format, without its key.
func (a *Authority) PEM() []byte { return slices.Clone(a.pem) }

// subjectPrefix is the beginning of the common name of each authority of Stint.
const subjectPrefix = "Stint installation CA"

// generate returns the certificate and key of a new authority. The certificate is valid
// from one hour before now until 3,650 days after now.
func generate(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the public key: %w", err)
	}
	fingerprint := sha256.Sum256(spki)
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s %x", subjectPrefix, fingerprint[:4])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // the authority cannot sign other authorities
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// serial returns a random positive number of at most 127 bits.
func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	b[15] |= 1
	return new(big.Int).SetBytes(b[:])
}

// Package tlsca answers: who vouches for the hosts whose TLS we end?
//
// Each installation has a certificate authority of its own. What it signs is
// believed only where its certificate was put among the roots: in sandboxes
// of this installation. Its key never leaves the file that Open is given.
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
)

const (
	caLife    = 3650 * 24 * time.Hour
	caRenewal = 30 * 24 * time.Hour // left of its life when it is replaced
	backdate  = time.Hour           // for clocks in sandboxes and images that lag
)

// Authority issues certificates. Its methods are safe for concurrent use.
type Authority struct {
	now   func() time.Time
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	pem   []byte
	leafs leafCache

	// leafKey serves every host: it lives in this process alone, so whoever
	// had one host's key would have all of them, and a key a host would only
	// cost time.
	leafKey *ecdsa.PrivateKey
}

// Open loads the authority from the file path, or makes one where there is no
// such file; the folder exists. Of several callers that find no file, all get
// the authority of the first. An authority that ends within 30 days is
// replaced by a new one, which sandboxes made from then on trust; callers that
// replace it at the same moment may each keep their own until they open it
// again, and each vouches for what it signs.
//
// A file that others than its owner can touch, a symbolic link, or one that
// does not hold an authority of Stint is refused and left as it is; the error
// says what to do.
func Open(path string, now func() time.Time) (*Authority, error) {
	cert, key, err := loadOrCreate(path, now())
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of certificates: %w", err)
	}
	return &Authority{
		now: now, cert: cert, key: key, leafKey: leafKey,
		pem: pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: cert.Raw}),
	}, nil
}

// PEM is the authority's certificate, without its key.
func (a *Authority) PEM() []byte { return slices.Clone(a.pem) }

// subjectPrefix begins the common name of every authority of Stint.
const subjectPrefix = "Stint installation CA"

// generate makes a new authority that is valid from an hour before now.
func generate(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
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
		MaxPathLenZero:        true, // it signs hosts, no further authorities
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// serial is a random positive number of at most 127 bits.
func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[0] &= 0x7f
	b[15] |= 1
	return new(big.Int).SetBytes(b[:])
}

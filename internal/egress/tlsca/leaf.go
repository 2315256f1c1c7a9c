package tlsca

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/egress/policy"
)

const (
	leafLife    = 7 * 24 * time.Hour
	leafRenewal = 24 * time.Hour // remaining validity at which a certificate is replaced
	cacheSize   = 1024           // number of hosts with a cached certificate
	commonName  = 64             // maximum characters of a common name
)

// Certificate returns a certificate for host, which is an IP address or a DNS name; upper
// case and a final dot are ignored. The certificate is valid for one to seven more days,
// but not longer than the authority. The caller must not change it. The certificates of
// the 1,024 most recently used hosts are cached.
func (a *Authority) Certificate(host string) (*tls.Certificate, error) {
	name, err := canonical(host)
	if err != nil {
		return nil, err
	}
	slot := a.leafSlot(name)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	now := a.now()
	if slot.cert != nil && (slot.cert.Leaf.NotAfter.Sub(now) > leafRenewal || slot.cert.Leaf.NotAfter.Equal(a.cert.NotAfter)) {
		return slot.cert, nil
	}
	cert, err := a.issue(name, now)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %s: %w", name, err)
	}
	slot.cert = cert
	return cert, nil
}

// issue returns a new certificate for name, which must be in canonical form.
func (a *Authority) issue(name string, now time.Time) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: serial(),
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if len(name) <= commonName {
		template.Subject = pkix.Name{CommonName: name}
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey, Leaf: leaf}, nil
}

// canonical returns the canonical form of a DNS name or IP address.
func canonical(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		return ip.Unmap().String(), nil
	}
	name, err := policy.CanonicalDomain(host)
	if err != nil {
		return "", fmt.Errorf("no certificate for %.80q: it is not a host name", host)
	}
	return name, nil
}

// leafSlot contains the certificate of a host.
type leafSlot struct {
	mu   sync.Mutex // guards cert; held while cert is issued, so that concurrent callers share it
	cert *tls.Certificate
}

// leafSlot returns the slot for the certificate of a name.
func (a *Authority) leafSlot(name string) *leafSlot {
	return a.leafs.Update(name, func(slot *leafSlot) *leafSlot {
		if slot == nil {
			slot = &leafSlot{}
		}
		return slot
	})
}

package tlsca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/privatefile"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	fileLimit        = 64 << 10 // maximum bytes of an authority's file
)

func loadOrCreate(path string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, key, err := load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := write(path, now, privatefile.Create); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, nil, fmt.Errorf("creating the certificate authority in %s: %w", path, err)
		}
	case err != nil:
		return nil, nil, err
	case cert.NotAfter.Sub(now) > caRenewal:
		return cert, key, nil
	default:
		if err := write(path, now, privatefile.Replace); err != nil {
			return nil, nil, fmt.Errorf("renewing the certificate authority in %s: %w", path, err)
		}
	}
	return load(path)
}

func load(path string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	text, err := privatefile.Read(path, fileLimit)
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate authority, with which any host can be impersonated to the sandboxes: %w", err)
	}
	cert, key, err := parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("the file %s does not contain a certificate authority of Stint (%w); restore it from a backup, or move it away to create a new one", path, err)
	}
	return cert, key, nil
}

// parse parses the content of an authority's file, which must be a certificate followed
// by its key and nothing else.
func parse(text []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, rest := pem.Decode(text)
	keyPEM, rest := pem.Decode(rest)
	if certPEM == nil || keyPEM == nil || certPEM.Type != certificateBlock || keyPEM.Type != keyBlock || len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, errors.New("it is not a certificate followed by its key")
	}
	cert, err := x509.ParseCertificate(certPEM.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading its certificate: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyPEM.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("reading its key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, errors.New("its key does not belong to the certificate")
	}
	if !strings.HasPrefix(cert.Subject.CommonName, subjectPrefix) || !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, nil, errors.New("its certificate is for another purpose")
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return nil, nil, fmt.Errorf("its certificate is not signed by its key: %w", err)
	}
	return cert, key, nil
}

// write generates an authority and passes its file content to the function write.
func write(path string, now time.Time, write func(path string, content []byte) error) error {
	cert, key, err := generate(now)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: cert.Raw})
	return write(path, append(text, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})...))
}

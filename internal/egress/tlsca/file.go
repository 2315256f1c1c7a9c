package tlsca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	fileLimit        = 64 << 10 // bytes of an authority's file
)

func loadOrCreate(path string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, key, err := load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = create(path, now, os.Link)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, nil, fmt.Errorf("creating the certificate authority in %s: %w", path, err)
		}
	case err != nil:
		return nil, nil, err
	case cert.NotAfter.Sub(now) > caRenewal:
		return cert, key, nil
	default:
		if err := create(path, now, os.Rename); err != nil {
			return nil, nil, fmt.Errorf("renewing the certificate authority in %s: %w", path, err)
		}
	}
	return load(path)
}

func load(path string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the certificate authority: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("the certificate authority %s is not a regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, nil, fmt.Errorf("the certificate authority %s is accessible to other users (mode %04o), who could impersonate any host to the sandboxes; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, fileLimit))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	cert, key, err := parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("the file %s does not contain a certificate authority of Stint (%w); restore it from a backup, or move it away to create a new one", path, err)
	}
	return cert, key, nil
}

// parse parses the output of format: a certificate and its key only.
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

// create writes a temporary file and then names it in one step: os.Link fails if
// the name exists, and os.Rename replaces the existing file.
func create(path string, now time.Time, name func(old, new string) error) (err error) {
	text, err := format(now)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".authority-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) { // a rename removes this name
			err = errors.Join(err, rerr)
		}
	}()
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// format returns the file content of a new authority.
func format(now time.Time) ([]byte, error) {
	cert, key, err := generate(now)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: cert.Raw})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})...), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

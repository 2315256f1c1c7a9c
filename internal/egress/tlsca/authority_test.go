package tlsca_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/internal/egress/tlsca"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func open(t *testing.T, path string, now func() time.Time) *tlsca.Authority {
	t.Helper()
	a, err := tlsca.Open(path, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func certificate(t *testing.T, a *tlsca.Authority, host string) *tls.Certificate {
	t.Helper()
	c, err := a.Certificate(host)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func caOf(t *testing.T, a *tlsca.Authority) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(a.PEM())
	if block == nil || len(rest) > 0 {
		t.Fatalf("PEM is not one block: %q", a.PEM())
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAuthorityIsStored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.pem")
	a := open(t, path, at(start))
	ca := caOf(t, a)
	if !ca.IsCA || ca.MaxPathLen != 0 || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("the authority's constraints: CA %v, path %d, usage %b", ca.IsCA, ca.MaxPathLen, ca.KeyUsage)
	}
	if !strings.HasPrefix(ca.Subject.CommonName, "Stint installation CA ") {
		t.Errorf("subject %q", ca.Subject)
	}
	if got, want := ca.NotAfter, start.AddDate(0, 0, 3650); !got.Equal(want) {
		t.Errorf("it expires at %v, want %v", got, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if bytes.Contains(a.PEM(), []byte("PRIVATE")) {
		t.Error("PEM contains the key")
	}
	again := open(t, path, at(start.Add(time.Hour)))
	if diff := cmp.Diff(string(a.PEM()), string(again.PEM())); diff != "" {
		t.Errorf("the reopened authority differs (-want +got):\n%s", diff)
	}
}

func TestConcurrentOpensShareAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := make([]string, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			a, err := tlsca.Open(filepath.Join(dir, "ca.pem"), at(start))
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = string(a.PEM())
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatal("two callers have different authorities")
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("files in the folder: %v, %v", left, err)
	}
}

func TestAuthorityIsRenewedBeforeExpiry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.pem")
	first := open(t, path, at(start))
	end := caOf(t, first).NotAfter
	if kept := open(t, path, at(end.AddDate(0, 0, -31))); !bytes.Equal(kept.PEM(), first.PEM()) {
		t.Error("it was renewed 31 days before its expiry")
	}
	now := end.AddDate(0, 0, -29)
	second := open(t, path, at(now))
	if bytes.Equal(second.PEM(), first.PEM()) {
		t.Fatal("it was not renewed 29 days before its expiry")
	}
	if got := caOf(t, second).NotAfter; !got.Equal(now.AddDate(0, 0, 3650)) {
		t.Errorf("the new one expires at %v", got)
	}
	if third := open(t, path, at(now)); !bytes.Equal(third.PEM(), second.PEM()) {
		t.Error("it was renewed twice")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the renewed file: %v, %v", info.Mode(), err)
	}
}

func TestCertificatesAreTrustedWithAuthority(t *testing.T) {
	t.Parallel()
	a := open(t, filepath.Join(t.TempDir(), "ca.pem"), at(start))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	long := strings.Repeat(strings.Repeat("a", 60)+".", 4) + "test"
	for host, verify := range map[string]string{
		"example.com": "example.com", "API.Example.com.": "api.example.com", "192.0.2.7": "192.0.2.7",
		"2001:db8::1": "2001:db8::1", "my_host": "my_host", long: long, "xn--bcher-kva.example": "xn--bcher-kva.example",
	} {
		leaf := certificate(t, a, host).Leaf
		for _, now := range []time.Time{start.Add(-59 * time.Minute), start.Add(6 * 24 * time.Hour)} {
			if _, err := leaf.Verify(x509.VerifyOptions{DNSName: verify, Roots: roots, CurrentTime: now}); err != nil {
				t.Errorf("%s at %v: %v", host, now, err)
			}
		}
		if leaf.IsCA || leaf.NotAfter.Sub(start) > 8*24*time.Hour {
			t.Errorf("%s: CA %v, ends %v", host, leaf.IsCA, leaf.NotAfter)
		}
	}
}

func TestInvalidHostsAreRefused(t *testing.T) {
	t.Parallel()
	a := open(t, filepath.Join(t.TempDir(), "ca.pem"), at(start))
	for _, host := range []string{"", ".", "*.example.com", "a b", "a..b", "-a.example", "a\nb", "ex\u00e4mple.com", "fe80::1%eth0", strings.Repeat("a.", 130), strings.Repeat("a", 64)} {
		if _, err := a.Certificate(host); err == nil {
			t.Errorf("%q has a certificate", host)
		}
	}
}

func TestCertificatesAreCachedAndRenewed(t *testing.T) {
	t.Parallel()
	now := start
	a := open(t, filepath.Join(t.TempDir(), "ca.pem"), func() time.Time { return now })
	first := certificate(t, a, "example.com")
	now = start.Add(5 * 24 * time.Hour)
	if certificate(t, a, "EXAMPLE.com") != first {
		t.Error("a valid certificate was replaced")
	}
	now = start.Add(6*24*time.Hour + time.Minute)
	renewed := certificate(t, a, "example.com")
	if renewed == first || !renewed.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("a certificate that expires soon was returned")
	}
	for i := range 1024 {
		certificate(t, a, fmt.Sprintf("h%d.example", i))
	}
	if certificate(t, a, "example.com") == renewed {
		t.Error("more than 1,024 hosts are cached")
	}
	if last := certificate(t, a, "h1023.example"); certificate(t, a, "h1023.example") != last {
		t.Error("a recently used host is not cached")
	}
}

func TestCertificateIsIssuedOnce(t *testing.T) {
	t.Parallel()
	a := open(t, filepath.Join(t.TempDir(), "ca.pem"), at(start))
	got := make([]*tls.Certificate, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], _ = a.Certificate(fmt.Sprintf("h%d.example", i%2)) })
	}
	wg.Wait()
	for i := range got {
		if got[i] == nil || got[i] != got[i%2] {
			t.Fatalf("caller %d received another certificate", i)
		}
	}
}

func TestCertificateDoesNotOutliveAuthority(t *testing.T) {
	t.Parallel()
	now := start
	a := open(t, filepath.Join(t.TempDir(), "ca.pem"), func() time.Time { return now })
	now = start.Add(3650*24*time.Hour - 12*time.Hour)
	leaf := certificate(t, a, "example.com")
	if diff := cmp.Diff(caOf(t, a).NotAfter, leaf.Leaf.NotAfter); diff != "" {
		t.Errorf("its end (-want +got):\n%s", diff)
	}
	if certificate(t, a, "example.com") != leaf {
		t.Error("on the last day of the authority, certificates are not cached")
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, filepath.Join(dir, "good.pem"), at(start))
	open(t, filepath.Join(dir, "other.pem"), at(start))
	good, _ := os.ReadFile(filepath.Join(dir, "good.pem"))
	other, _ := os.ReadFile(filepath.Join(dir, "other.pem"))
	split := func(text []byte) (cert, key []byte) {
		cert, key, _ = bytes.Cut(text, []byte("-----BEGIN PRIVATE"))
		return cert, append([]byte("-----BEGIN PRIVATE"), key...)
	}
	goodCert, _ := split(good)
	_, otherKey := split(other)
	for name, c := range map[string]struct {
		text []byte
		mode os.FileMode
		want string
	}{
		"good":              {good, 0o600, ""},
		"read-only":         {good, 0o400, ""},
		"readable by all":   {good, 0o644, "chmod 600"},
		"empty":             {nil, 0o600, "restore it from a backup"},
		"text":              {[]byte("hello\n"), 0o600, "restore it from a backup"},
		"no key":            {goodCert, 0o600, "restore it from a backup"},
		"other key":         {slices.Concat(goodCert, otherKey), 0o600, "does not belong to the certificate"},
		"something after":   {append(bytes.Clone(good), "more"...), 0o600, "restore it from a backup"},
		"damaged":           {bytes.Replace(good, []byte("MII"), []byte("MIJ"), 1), 0o600, "restore it from a backup"},
		"another authority": {foreign(t, "Example CA", true), 0o600, "is for another purpose"},
		"not an authority":  {foreign(t, "Stint installation CA 1", false), 0o600, "is for another purpose"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(path, c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := tlsca.Open(path, at(start))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			left, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(left, c.text) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func TestAuthorityNeedsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, filepath.Join(dir, "ca.pem"), at(start))
	if err := os.Symlink("ca.pem", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "link"), filepath.Join(dir, "missing", "ca.pem")} {
		if _, err := tlsca.Open(path, at(start)); err == nil {
			t.Errorf("%s is accepted as an authority", path)
		}
	}
}

func TestBundleContainsAuthorityOnce(t *testing.T) {
	t.Parallel()
	a := open(t, filepath.Join(t.TempDir(), "ca.pem"), at(start))
	b := open(t, filepath.Join(t.TempDir(), "ca.pem"), at(start))
	system := bytes.TrimSpace(b.PEM()) // without a final new line
	for name, system := range map[string][]byte{
		"none": nil, "some": system, "with the authority": a.Bundle(system), "with the authority, other line ends": bytes.ReplaceAll(a.Bundle(system), []byte("\n"), []byte("\r\n")),
	} {
		bundle := a.Bundle(system)
		matching, all := 0, 0
		for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
			all++
			if bytes.Equal(block.Bytes, caOf(t, a).Raw) {
				matching++
			}
		}
		if want := 1 + min(1, len(system)); matching != 1 || all != want {
			t.Errorf("%s: %d of %d certificates are the authority's, want 1 of %d", name, matching, all, want)
		}
		if !bytes.HasPrefix(bundle, system) {
			t.Errorf("%s: the system's roots changed", name)
		}
	}
}

func TestSystemBundleIsFound(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"etc/ssl/certs/ca-certificates.crt", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/ca-bundle.pem", "etc/ssl/cert.pem",
	} {
		root := t.TempDir()
		if got := tlsca.SystemBundle(root); got != "" {
			t.Errorf("an empty system has %q", got)
		}
		want := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(want, []byte("roots"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := tlsca.SystemBundle(root); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// foreign returns the file of an authority that another program created.
func foreign(t *testing.T, name string, ca bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: start.AddDate(1, 0, 0),
		IsCA: ca, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if !ca {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...)
}

func BenchmarkIssue(b *testing.B) {
	a, err := tlsca.Open(filepath.Join(b.TempDir(), "ca.pem"), at(start))
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		i++
		if _, err := a.Certificate(fmt.Sprintf("h%d.example", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRemembered(b *testing.B) {
	a, err := tlsca.Open(filepath.Join(b.TempDir(), "ca.pem"), at(start))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.Certificate("example.com"); err != nil {
			b.Fatal(err)
		}
	}
}

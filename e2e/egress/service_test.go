package egress_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// waitLimit is the maximum time to wait for an event, even on a busy machine.
const waitLimit = 2 * time.Minute

// service is an installation and the client of a user.
type service struct {
	*testing.T
	client *client.Client
	host   *installation.Host
}

func newService(t *testing.T, flags ...string) *service {
	t.Helper()
	h := installation.New(t, append([]string{"--egress-ca", authorityFile(t)}, flags...)...)
	h.Start()
	return &service{t, h.Login(t, "acme"), h}
}

// authority returns the certificate authority that signs the certificates of the test
// servers. The service trusts it.
var authority = sync.OnceValues(func() (tls.Certificate, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "An authority of the internet"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, leaf
})

func authorityFile(t *testing.T) string {
	t.Helper()
	ca, _ := authority()
	path := filepath.Join(t.TempDir(), "internet.pem")
	installation.Check(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]}), 0o644))
	return path
}

// certificate returns a certificate for the host, signed by authority.
func certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	ca, parent := authority()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	installation.Check(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), ca.PrivateKey)
	installation.Check(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// server starts a server at the address of name in internet. It uses TLS if port is
// 443.
func server(t *testing.T, name string, port int, h http.Handler) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", internet[name], port))
	installation.Check(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if port == 443 {
			srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate(t, name)}, NextProtos: []string{"h2", "http/1.1"}}
			_ = srv.ServeTLS(l, "", "")
			return
		}
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() { _ = srv.Close(); <-done })
}

// definition contains the members of a definition except name and framework.
type definition map[string]any

// run creates a shell agent with the definition, executes the script in a run, and
// returns the ended run and its output.
func (w *service) run(d definition, script string, secrets map[string]string) (*stint.Run, string) {
	w.Helper()
	all := definition{"name": fmt.Sprintf("a%d", time.Now().UnixNano()), "framework": "shell"}
	maps.Copy(all, d)
	raw, err := json.Marshal(all)
	installation.Check(w, err)
	_, err = w.client.Agents.Create(w.Context(), raw)
	installation.Check(w, err)
	r := installation.Create(w, w.client, stint.NewRun{Agent: all["name"].(string), Prompt: script, Secrets: secrets})
	r = installation.Ended(w, w.client, r.ID)
	return r, w.output(r.ID)
}

// succeed is like run, but ends the test if the run does not complete.
func (w *service) succeed(d definition, script string) (*stint.Run, string) {
	w.Helper()
	r, out := w.run(d, script, nil)
	if r.Status != stint.Completed {
		w.Fatalf("the run is %s: %v\n%s\n%s", r.Status, installation.Value(r.Error), out, strings.Join(w.lines(r.ID, stint.LogNetwork), "\n"))
	}
	return r, out
}

func (w *service) output(id string) string {
	w.Helper()
	var b strings.Builder
	for _, e := range installation.Events(w, w.client, id) {
		if e.Type == stint.EventOutput {
			b.WriteString(installation.Output(w, e).Content)
		}
	}
	return b.String()
}

func (w *service) logs(id string, kind stint.LogType) []stint.LogEntry {
	w.Helper()
	return installation.Logs(w, w.client, id, kind)
}

// lines returns the log entries of a run, each with its metadata, as text.
func (w *service) lines(id string, kind stint.LogType) []string {
	w.Helper()
	var out []string
	for _, e := range w.logs(id, kind) {
		m, err := json.Marshal(e.Metadata)
		installation.Check(w, err)
		out = append(out, e.Level+" "+e.Message+" "+string(m))
	}
	return out
}

// checkLogged checks that the network log has an entry with metadata that contains the
// members of want.
func (w *service) checkLogged(id string, want map[string]any) {
	w.Helper()
	entries := w.logs(id, stint.LogNetwork)
	if !slices.ContainsFunc(entries, func(e stint.LogEntry) bool { return containsAll(e.Metadata, want) }) {
		w.Errorf("the log has no entry with %v:\n%s", want, strings.Join(w.lines(id, stint.LogNetwork), "\n"))
	}
}

func containsAll(got, want map[string]any) bool {
	for name, value := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(value) {
			return false
		}
	}
	return true
}

// waitUntil waits until ok returns true, for at most waitLimit. The text in what names
// the awaited event in the failure message.
func (w *service) waitUntil(what string, ok func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), waitLimit)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			w.Fatalf("waiting %s for %s", waitLimit, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

//go:build linux && (amd64 || arm64)

package namespace_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

// output runs a shell command in a new sandbox and returns its output.
func (w *world) output(s sandbox.Spec, script string) string {
	w.Helper()
	b := w.prepare(s)
	defer w.close(b)
	var out strings.Builder
	c := sandbox.Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"}, Stdout: &out, Stderr: &out}
	if err := b.Start(w.Context(), c); err != nil {
		w.Fatal(err)
	}
	if _, err := b.Wait(w.Context()); err != nil {
		w.Fatal(err)
	}
	return out.String()
}

// newTrustWorld returns a driver with a trust bundle that only the server may read.
func newTrustWorld(t *testing.T) *world {
	w := &world{TB: t, state: filepath.Join(t.TempDir(), "state")}
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, []byte("the bundle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := namespace.New(namespace.Config{StateDir: w.state, TrustBundle: bundle})
	if err != nil {
		t.Fatal(err)
	}
	w.driver = d
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestTrustBundle(t *testing.T) {
	w := newTrustWorld(t)
	got := w.output(w.spec(), "for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem /etc/ssl/ca-bundle.pem; do [ -e $f ] && cat $f; done; echo x 2>/dev/null >> /etc/ssl/certs/ca-certificates.crt || echo read-only")
	if strings.Count(got, "the bundle\n") == 0 || strings.Trim(strings.ReplaceAll(got, "the bundle", ""), "\n") != "read-only" {
		t.Errorf("the trusted certificates are %q", got)
	}
}

// TestTrustBundleInImage checks that the trust bundle replaces the certificate files of
// an image, and that a sandbox of an image without such files has the bundle too.
func TestTrustBundleInImage(t *testing.T) {
	w := newTrustWorld(t)
	for name, files := range map[string]map[string]string{
		"none":          {},
		"no store":      {"etc/ssl/certs/one.pem": "x", "etc/ssl/openssl.cnf": "x"},
		"debian":        {"etc/ssl/certs/ca-certificates.crt": "x"},
		"alpine":        {"etc/ssl/certs/ca-certificates.crt": "x", "etc/ssl/cert.pem": "->certs/ca-certificates.crt"},
		"fedora":        {"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": "x", "etc/pki/tls/certs/ca-bundle.crt": "->/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
		"two":           {"etc/ssl/certs/ca-certificates.crt": "x", "etc/ssl/ca-bundle.pem": "y"},
		"links outside": {"etc/ssl": "->/", "etc/pki": "->../../../.."},
	} {
		s := w.spec()
		s.Image = filepath.Join(t.TempDir(), "image")
		writeFiles(t, s.Image, files)
		b := w.prepare(s)
		root := w.root(b)
		found := 0
		for _, f := range []string{"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/cert.pem", "etc/ssl/ca-bundle.pem"} {
			got, ok := readInRoot(t, root, f)
			if !ok {
				continue
			}
			found++
			if diff := cmp.Diff("the bundle\n", got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, f, diff)
			}
		}
		if found == 0 {
			t.Errorf("%s: no certificate file has the content of the bundle", name)
		}
		unix.Close(root)
		w.close(b)
	}
}

// writeFiles creates dir and files in it. A text that starts with "->" stands for a
// symbolic link to the rest of the text.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		full := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil {
			if target, ok := strings.CutPrefix(text, "->"); ok {
				err = os.Symlink(target, full)
			} else {
				err = os.WriteFile(full, []byte(text), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pid returns the process ID of a sandbox's init from its record.
func (w *world) pid(b sandbox.Sandbox) int {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(w.state, b.ID()+".sandbox"))
	if err != nil {
		w.Fatal(err)
	}
	var record struct{ PID int }
	if err := json.Unmarshal(text, &record); err != nil {
		w.Fatal(err)
	}
	return record.PID
}

// root returns a descriptor of a sandbox's root folder.
func (w *world) root(b sandbox.Sandbox) int {
	w.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root", w.pid(b)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.Fatal(err)
	}
	return fd
}

// readInRoot reads a file of a sandbox and resolves symbolic links like a process inside
// the sandbox. It returns false if the file cannot be opened.
func readInRoot(t *testing.T, root int, name string) (string, bool) {
	t.Helper()
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return "", false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), true
}

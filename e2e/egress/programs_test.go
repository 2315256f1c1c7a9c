package egress_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// modes are the environments in which programs run: one without settings, and one with
// variables that name the proxy.
var modes = map[string]map[string]string{
	"as they are": {},
	"by a proxy": {
		"http_proxy": "http://proxy.stint.internal:3128", "https_proxy": "http://proxy.stint.internal:3128",
		"HTTP_PROXY": "http://proxy.stint.internal:3128", "HTTPS_PROXY": "http://proxy.stint.internal:3128",
		"npm_config_proxy": "http://proxy.stint.internal:3128", "npm_config_https_proxy": "http://proxy.stint.internal:3128",
	},
}

// withInterception returns a definition with TLS interception. Programs in its sandbox
// trust the interception CA, and each of their requests is logged.
func withInterception(environment map[string]string) definition {
	return definition{
		"environment": environment,
		"network":     map[string]any{"mode": "public", "inspect": []string{"*.example.com", "*.example.org"}},
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	w := newService(t)
	server(t, "files.example.com", 80, http.HandlerFunc(hello))
	server(t, "api.example.com", 443, http.HandlerFunc(hello))
	server(t, "files.example.com", 443, gitServer(t))
	server(t, "pypi.example.org", 443, http.HandlerFunc(packageIndex))
	server(t, "npm.example.org", 443, http.HandlerFunc(npmRegistry))
	for mode, environment := range modes {
		for name, program := range programs {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				w := &service{t, w.client, w.host}
				r, out := w.succeed(withInterception(environment), program.script)
				if !strings.Contains(out, program.says) {
					t.Errorf("the output lacks %q:\n%s", program.says, out)
				}
				for _, entry := range program.logged {
					w.checkLogged(r.ID, entry)
				}
			})
		}
	}
}

type program struct {
	script, says string
	logged       []map[string]any
}

var programs = map[string]program{
	"curl in the clear": {
		"curl -sSf http://files.example.com/a?b=c", "hello HTTP/1.1 /a?b=c",
		[]map[string]any{{"method": "GET", "url": "http://files.example.com/a?b=c", "status": 200, "action": "allow", "protocol": "http/1.1", "port": 80}},
	},
	"curl over TLS": {
		"curl -sSf https://api.example.com/x", "hello HTTP/2.0 /x",
		[]map[string]any{{"method": "GET", "url": "https://api.example.com/x", "status": 200, "action": "allow"}},
	},
	"git": {
		"git clone -q https://files.example.com/repo.git && cat repo/README", "a repository",
		[]map[string]any{{"method": "GET", "url": "https://files.example.com/repo.git/info/refs?service=git-upload-pack", "status": 200}, {"method": "POST", "url": "https://files.example.com/repo.git/git-upload-pack", "status": 200}},
	},
	"python": {
		`python3 -c '
import re, urllib.request
index = urllib.request.urlopen("https://pypi.example.org/simple/demo/").read().decode()
url = re.search("href=.([^#\"]+)", index).group(1)
print(len(urllib.request.urlopen("https://pypi.example.org" + url).read()), "bytes")'`, "100000 bytes",
		[]map[string]any{{"method": "GET", "url": "https://pypi.example.org/files/demo-1.0.tar.gz", "status": 200}},
	},
	"npm": {
		"npm install --registry=https://npm.example.org/ --no-audit --no-fund demo && node -p 'require(\"demo\")'", "a package",
		[]map[string]any{{"method": "GET", "url": "https://npm.example.org/demo", "status": 200}, {"method": "GET", "url": "https://npm.example.org/demo/-/demo-1.0.0.tgz", "status": 200}},
	},
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello %s %s\n", r.Proto, r.URL)
}

// packageIndex serves a Python package index: a page with a link, and the linked file.
func packageIndex(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/simple/") {
		io.WriteString(w, `<a href="/files/demo-1.0.tar.gz#sha256=0">demo</a>`)
		return
	}
	w.Write(bytes.Repeat([]byte("x"), 100_000))
}

func npmRegistry(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".tgz") {
		w.Write(npmPackage())
		return
	}
	json.NewEncoder(w).Encode(map[string]any{
		"name": "demo", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{"name": "demo", "version": "1.0.0", "dist": map[string]string{"tarball": "https://npm.example.org/demo/-/demo-1.0.0.tgz"}}},
	})
}

func npmPackage() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for name, text := range map[string]string{"package/package.json": `{"name":"demo","version":"1.0.0","main":"i.js"}`, "package/i.js": `module.exports = "a package"`} {
		t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		io.WriteString(t, text)
	}
	t.Close()
	z.Close()
	return b.Bytes()
}

// gitServer creates a repository and returns a handler that serves the repository with
// git http-backend.
func gitServer(t *testing.T) http.Handler {
	t.Helper()
	dir := t.TempDir()
	script := `set -e; git init -q --bare repo.git; git init -q work; cd work; echo "a repository" >README; git add .
git -c user.name=a -c user.email=a@b commit -qm first; git push -q ../repo.git HEAD:refs/heads/master`
	c := exec.Command("bash", "-c", script)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("creating a repository: %v\n%s", err, out)
	}
	exe, err := exec.Command("git", "--exec-path").Output()
	installation.Check(t, err)
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(exe)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}
}

// TestGo checks the requests of a statically linked Go program, which does not use the
// resolver of the C library.
func TestGo(t *testing.T) {
	t.Parallel()
	w := newService(t)
	server(t, "api.example.com", 8443, http.HandlerFunc(hello))
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	installation.Check(t, os.WriteFile(source, []byte(`package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
	r, err := http.Get("http://api.example.com:8443/from-go")
	if err != nil { fmt.Println(err); os.Exit(1) }
	io.Copy(os.Stdout, r.Body)
}
`), 0o644))
	c := exec.Command("go", "build", "-o", filepath.Join(dir, "fetch"), source)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tree, err := w.client.Volumes.Create(t.Context(), "tool")
	installation.Check(t, err)
	_, _, err = w.client.Volumes.Push(t.Context(), tree.ID, archive(t, filepath.Join(dir, "fetch")), nil)
	installation.Check(t, err)
	r, out := w.succeed(definition{"volumes": map[string]any{"tool": map[string]any{"path": "/tool"}}}, "/tool/fetch")
	if !strings.Contains(out, "hello HTTP/1.1 /from-go") {
		t.Errorf("output %q", out)
	}
	w.checkLogged(r.ID, map[string]any{"method": "GET", "url": "http://api.example.com:8443/from-go", "status": 200, "port": 8443})
}

// archive returns a tar.gz archive with the program at path.
func archive(t *testing.T, path string) io.Reader {
	t.Helper()
	raw, err := os.ReadFile(path)
	installation.Check(t, err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	installation.Check(t, w.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: 0o755, Size: int64(len(raw))}))
	_, err = w.Write(raw)
	installation.Check(t, err)
	installation.Check(t, w.Close())
	installation.Check(t, z.Close())
	return &b
}

// TestLogsOfRunningRun checks that the log contains a request while the run that sent
// it is still running.
func TestLogsOfRunningRun(t *testing.T) {
	t.Parallel()
	w := newService(t)
	server(t, "api.example.com", 8081, http.HandlerFunc(hello))
	installation.Agent(t, w.client, "waits", "")
	r := installation.Create(t, w.client, stint.NewRun{Agent: "waits", Prompt: "curl -sS http://api.example.com:8081/live; curl -sS http://evil.example.net:81; sleep 600"})
	w.waitUntil("the request is logged", func() bool {
		for _, e := range w.logs(r.ID, stint.LogNetwork) {
			if containsAll(e.Metadata, map[string]any{"url": "http://api.example.com:8081/live", "status": 200}) {
				return true
			}
		}
		return false
	})
	got, err := w.client.Runs.Cancel(t.Context(), r.ID) // fails if the run has ended
	installation.Check(t, err)
	if got.Status != stint.Cancelled {
		t.Errorf("the run is %s", got.Status)
	}
}

package agentcli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

var (
	codex  = framework.Info{Name: "codex", Programs: []string{"codex"}, MinVersion: "0.20.3", Install: "npm install -g @openai/codex"}
	claude = framework.Info{Name: "claude-code", Programs: []string{"claude"}, MinVersion: "2.1.0", Install: "npm install -g @anthropic-ai/claude-code"}
	acp    = framework.Info{Name: "acp"}
	own    = framework.Info{Name: "assistant"}
)

// world simulates a host in the folder root. Sandboxes see the folder usr, but not the
// folder home. env contains the environment variables of the server.
type world struct {
	*testing.T
	root string
	env  map[string]string
	now  time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, root: root, env: map[string]string{}}
	w.env["PATH"] = strings.Join([]string{w.at("usr/bin"), w.at("home/bin"), "relative", "/usr/bin", "/bin"}, ":")
	for at := root; at != "/"; at = filepath.Dir(at) {
		if st, err := os.Stat(at); err == nil && st.Mode()&0o001 == 0 {
			if err := os.Chmod(at, st.Mode()|0o001); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

func (w *world) at(path string) string { return filepath.Join(w.root, path) }

// file writes an executable file and returns its absolute path.
func (w *world) file(path, content string) string {
	w.Helper()
	at := w.at(path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.Fatal(err)
	}
	// Another process writes the file. If this process wrote the file, a process that
	// another test starts at the same time could inherit the open file. Linux does not
	// execute a file that is open for writing.
	writer := exec.CommandContext(w.Context(), "/bin/sh", "-c", `cat >"$0"`, at)
	writer.Stdin = strings.NewReader(content)
	if out, err := writer.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(at, 0o755); err != nil {
		w.Fatal(err)
	}
	return at
}

func (w *world) link(path, to string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(w.at(path)), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.Symlink(to, w.at(path)); err != nil {
		w.Fatal(err)
	}
}

// binary is the content of a program that is not a script. The program cannot be
// executed, so it prints no version.
const binary = "\x7fELF"

// printing returns a script that prints version if its argument is --version.
func printing(version string) string {
	return "#!/bin/sh\n[ \"$1\" = --version ] && echo '" + version + "'\n"
}

func (w *world) finder() *agentcli.Finder {
	return agentcli.New(agentcli.Config{
		Frameworks: []framework.Info{{Name: "shell"}, own, claude, codex, acp}, Dir: w.at("data/programs"),
		Getenv: func(name string) string { return w.env[name] },
		Visible: func(path string) bool {
			return strings.HasPrefix(path, w.at("usr")+"/") || strings.HasPrefix(path, "/usr/")
		},
		Self: "/proc/self/exe",
		Now:  func() time.Time { return w.now },
	})
}

func (w *world) find(of framework.Info, d stint.Definition) agentcli.CLI {
	w.Helper()
	found, err := w.finder().Find(w.Context(), of, &d)
	if err != nil {
		w.Fatal(err)
	}
	return found
}

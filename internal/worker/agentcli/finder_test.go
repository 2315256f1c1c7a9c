package agentcli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// view is a CLI in a form that tests can compare. Paths on the host are relative to the
// root of the world.
type view struct {
	Path, Version string
	Mounts        []string // "source > target"; the source of a copied program is "copy"
	Dirs          []string
	Env           map[string]string
}

func (w *world) view(f agentcli.CLI) view {
	w.Helper()
	short := func(path string) string { return strings.TrimPrefix(path, w.root+"/") }
	v := view{Path: short(f.Program.Path), Version: f.Version, Env: f.Env}
	for _, m := range f.Mounts {
		if err := m.Validate(); err != nil || m.Writable || m.Upper != "" {
			w.Errorf("a mount of %+v: %v", m, err)
		}
		source := short(m.Source)
		if strings.HasPrefix(source, "data/programs/") {
			entries, err := os.ReadDir(m.Source)
			if err != nil || len(entries) != 1 {
				w.Errorf("%d files are mounted with a program: %v", len(entries), err)
			}
			source = "copy"
		}
		v.Mounts = append(v.Mounts, source+" > "+m.Target)
	}
	for _, dir := range f.Path {
		v.Dirs = append(v.Dirs, short(dir))
	}
	return v
}

func TestMounts(t *testing.T) {
	t.Parallel()
	node := "#!/usr/bin/env node\n"
	for name, c := range map[string]struct {
		of    framework.Info
		d     stint.Definition
		build func(w *world)
		want  view
	}{
		"visible at its path": {
			codex,
			stint.Definition{},
			func(w *world) { w.file("usr/bin/codex", binary) },
			view{Path: "usr/bin/codex"},
		},
		"links into a visible folder": {codex, stint.Definition{}, func(w *world) {
			w.file("usr/lib/codex/bin/codex", binary)
			w.link("home/one", "two")
			w.link("home/two", w.at("usr/lib/codex/bin/codex"))
			w.link("home/bin/codex", "../one")
		}, view{Path: "usr/lib/codex/bin/codex"}},
		"link out of a visible folder": {codex, stint.Definition{}, func(w *world) {
			w.file("home/versions/0.30.0", binary)
			w.link("usr/bin/codex", w.at("home/versions/0.30.0"))
		}, view{Path: "/run/programs/codex/codex", Mounts: []string{"copy > /run/programs/codex"}}},
		"folder accessible only to its owner": {codex, stint.Definition{}, func(w *world) {
			w.file("usr/bin/codex", binary)
			if err := os.Chmod(w.at("usr/bin"), 0o700); err != nil {
				w.Fatal(err)
			}
		}, view{Path: "/run/programs/codex/codex", Mounts: []string{"copy > /run/programs/codex"}}},
		"a binary in its package": {codex, stint.Definition{}, func(w *world) {
			w.file("home/app/node_modules/@openai/codex-linux/vendor/bin/codex", binary)
			w.link("home/bin/codex", "../app/node_modules/@openai/codex-linux/vendor/bin/codex")
		}, view{Path: "/run/programs/codex/node_modules/@openai/codex-linux/vendor/bin/codex", Mounts: []string{"home/app/node_modules/@openai/codex-linux > /run/programs/codex/node_modules/@openai/codex-linux"}}},
		"a binary in a package of a package": {codex, stint.Definition{}, func(w *world) {
			w.file("home/node_modules/a/node_modules/b/codex", binary)
			w.link("home/bin/codex", w.at("home/node_modules/a/node_modules/b/codex"))
		}, view{Path: "/run/programs/codex/node_modules/b/codex", Mounts: []string{"home/node_modules/a/node_modules/b > /run/programs/codex/node_modules/b"}}},
		"a binary outside packages": {codex, stint.Definition{}, func(w *world) {
			w.file("home/node_modules/codex", binary)
			w.link("home/bin/codex", w.at("home/node_modules/codex"))
		}, view{Path: "/run/programs/codex/codex", Mounts: []string{"copy > /run/programs/codex"}}},
		"a script with the packages around it": {codex, stint.Definition{}, func(w *world) {
			w.file("usr/local/bin/node", "#!/bin/sh\necho v20.1.2\n")
			w.env["PATH"] = w.at("usr/local/bin") + ":" + w.at("home/app/node_modules/.bin")
			w.file("home/app/node_modules/.pnpm/codex@1/node_modules/@openai/codex/bin/codex.js", node)
			w.link("home/app/node_modules/.bin/codex", "../.pnpm/codex@1/node_modules/@openai/codex/bin/codex.js")
		}, view{
			Path:    "/run/programs/codex/node_modules/.pnpm/codex@1/node_modules/@openai/codex/bin/codex.js",
			Version: "20.1.2", Dirs: []string{"usr/local/bin"},
			Mounts: []string{"home/app/node_modules > /run/programs/codex/node_modules"},
		}},
		"a script and its interpreter": {codex, stint.Definition{}, func(w *world) {
			w.file("home/node/bin/node", binary)
			w.file("home/node/lib/node_modules/codex/cli.js", node)
			w.env["PATH"] = w.at("home/node/bin")
			w.link("home/node/bin/codex", "../lib/node_modules/codex/cli.js")
		}, view{
			Path: "/run/programs/codex/node_modules/codex/cli.js", Dirs: []string{"/run/programs/bin/node"},
			Mounts: []string{"home/node/lib/node_modules > /run/programs/codex/node_modules", "copy > /run/programs/bin/node"},
		}},
		"a script for a shell": {
			codex,
			stint.Definition{},
			func(w *world) { w.file("home/bin/codex", printing("codex-cli 0.30.0")) },
			view{Path: "/run/programs/codex/codex", Version: "0.30.0", Mounts: []string{"copy > /run/programs/codex"}},
		},
		"named by a variable": {claude, stint.Definition{}, func(w *world) {
			w.file("usr/bin/claude", printing("9.9.9 (elsewhere)"))
			w.env["STINT_CLAUDE_CODE_BIN"] = w.file("usr/opt/claude-2", printing("2.1.197 (Claude Code)"))
		}, view{Path: "usr/opt/claude-2", Version: "2.1.197"}},
		"in an image": {codex, stint.Definition{Image: "debian:12"}, func(*world) {}, view{Path: "codex"}},
		"an agent":    {acp, stint.Definition{Command: []string{"agent", "acp"}}, func(w *world) { w.file("usr/bin/agent", binary) }, view{Path: "usr/bin/agent"}},
		"an agent in an image": {
			acp,
			stint.Definition{Command: []string{"agent"}, Image: "debian:12"},
			func(*world) {},
			view{Path: "agent"},
		},
		"an agent by its path": {acp, stint.Definition{Command: []string{"/home/agent/bin/agent"}}, func(*world) {}, view{Path: "/home/agent/bin/agent"}},
		"an agent named by a variable": {
			acp,
			stint.Definition{Command: []string{"agent"}},
			func(w *world) { w.env["STINT_ACP_BIN"] = w.file("home/other", binary) },
			view{Path: "/run/programs/acp/other", Mounts: []string{"copy > /run/programs/acp"}},
		},
		"an agent that drives Claude Code": {acp, stint.Definition{Command: []string{"claude-agent-acp"}}, func(w *world) {
			w.file("home/bin/claude-agent-acp", binary)
			w.file("home/bin/claude", binary)
		}, view{
			Path: "/run/programs/acp/claude-agent-acp", Env: map[string]string{"CLAUDE_CODE_EXECUTABLE": "/run/programs/claude-code/claude"},
			Mounts: []string{"copy > /run/programs/acp", "copy > /run/programs/claude-code"},
		}},
		"an agent without Claude Code": {
			acp,
			stint.Definition{Command: []string{"claude-agent-acp"}},
			func(w *world) { w.file("usr/bin/claude-agent-acp", binary) },
			view{Path: "usr/bin/claude-agent-acp"},
		},
		"needs no program": {framework.Info{Name: "command"}, stint.Definition{Command: []string{"codex"}}, func(*world) {}, view{}},
		"own program":      {own, stint.Definition{Image: "debian:12"}, func(*world) {}, view{Path: agentcli.SelfPath, Mounts: []string{"copy > /run/programs/stint"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.build(w)
			if diff := cmp.Diff(c.want, w.view(w.find(c.of, c.d))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of             framework.Info
		d              stint.Definition
		build          func(w *world)
		param, message string
	}{
		"not installed": {
			codex,
			stint.Definition{},
			func(*world) {}, "framework",
			"The framework 'codex' needs the program 'codex', which is not installed on this server. Install it (npm install -g @openai/codex) or name it by STINT_CODEX_BIN, and try again.",
		},
		"not executable": {codex, stint.Definition{}, func(w *world) {
			if err := os.Chmod(w.file("usr/bin/codex", binary), 0o644); err != nil {
				w.Fatal(err)
			}
		}, "framework", "which is not installed"},
		"wrong variable": {codex, stint.Definition{}, func(w *world) { w.env["STINT_CODEX_BIN"] = w.at("nowhere") }, "framework", "the file that STINT_CODEX_BIN names"},
		"too old": {
			codex,
			stint.Definition{},
			func(w *world) { w.file("usr/bin/codex", printing("codex-cli 0.20.2")) }, "framework",
			"The framework 'codex' needs the program 'codex' from version 0.20.3 on, but 0.20.2 is installed on this server. Update it (npm install -g @openai/codex), and try again.",
		},
		"no such agent":         {acp, stint.Definition{Command: []string{"agent"}}, func(*world) {}, "command[0]", "The program 'agent' is not installed"},
		"agent, wrong variable": {acp, stint.Definition{Command: []string{"agent"}}, func(w *world) { w.env["STINT_ACP_BIN"] = "/nowhere" }, "framework", "STINT_ACP_BIN"},
		"no interpreter":        {codex, stint.Definition{}, func(w *world) { w.file("usr/bin/codex", "#!/usr/bin/env -S nothing-like-it --x\n") }, "framework", "a script for 'nothing-like-it', which is not installed"},
		"invisible interpreter": {codex, stint.Definition{}, func(w *world) { w.file("usr/bin/codex", "#!"+w.file("home/python/bin/python3", binary)+"\n") }, "framework", "a script for 'python3', which is installed where"},
		"invisible interpreter by env": {codex, stint.Definition{}, func(w *world) {
			w.file("home/bin/python3", binary)
			w.file("usr/bin/codex", "#!/usr/bin/env python3\n")
			w.env["PATH"] = w.at("usr/bin") + ":" + w.at("home/bin")
		}, "framework", "below /usr or /opt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.build(w)
			_, err := w.finder().Find(t.Context(), c.of, &c.d)
			user, ok := errors.AsType[*stint.Error](err)
			if !ok || user.Param != c.param || !strings.Contains(user.Message, c.message) || strings.Contains(user.Message, w.root) {
				t.Errorf("%#v", err)
			}
		})
	}
}

func TestVersionIsCached(t *testing.T) {
	w := newWorld(t)
	count := w.at("count")
	w.file("usr/bin/codex", "#!/bin/sh\necho x >> '"+count+"'\necho codex 1.2.3\n")
	f := w.finder()
	asked := func() int {
		b, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), "x")
	}
	for range 3 {
		if _, err := f.Find(t.Context(), codex, &stint.Definition{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked(); n != 1 {
		t.Errorf("started %d times", n)
	}
	w.file("usr/bin/codex", "#!/bin/sh\necho x >> '"+count+"'\necho codex 1.2.4, another\n")
	found, err := f.Find(t.Context(), codex, &stint.Definition{})
	if err != nil || found.Version != "1.2.4" || asked() != 2 {
		t.Errorf("after an update %q, started %d times: %v", found.Version, asked(), err)
	}
}

// blockedProgram creates a program that blocks before it prints its version. opened
// waits until the program has started and returns a file. When the test closes the file,
// the program continues. asked returns the number of starts of the program.
func (w *world) blockedProgram() (opened func() *os.File, asked func() int) {
	w.Helper()
	gate, count := w.at("gate"), w.at("count")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		w.Fatal(err)
	}
	w.file("usr/bin/codex", "#!/bin/sh\necho x >> '"+count+"'\ncat '"+gate+"'\necho codex 1.2.3\n")
	opened = func() *os.File { // waits until the program has started
		w.Helper()
		f, err := os.OpenFile(gate, os.O_WRONLY, 0)
		if err != nil {
			w.Fatal(err)
		}
		return f
	}
	return opened, func() int {
		w.Helper()
		b, err := os.ReadFile(count)
		if err != nil {
			w.Fatal(err)
		}
		return strings.Count(string(b), "x")
	}
}

// TestHangingProgram checks concurrent callers that wait until another caller knows the
// version of a program. If such a caller is cancelled, it returns immediately. The other
// callers share the version that a single execution of the program prints.
func TestHangingProgram(t *testing.T) {
	w := newWorld(t)
	opened, asked := w.blockedProgram()
	f := w.finder()
	type answer struct {
		version string
		err     error
	}
	ask := func(ctx context.Context) <-chan answer {
		got := make(chan answer, 1)
		go func() {
			found, err := f.Find(ctx, codex, &stint.Definition{})
			got <- answer{found.Version, err}
		}()
		return got
	}
	first := ask(t.Context())
	gate := opened()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if second := <-ask(cancelled); !errors.Is(second.err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", second)
	}
	select {
	case got := <-first:
		t.Errorf("the cancelled caller waited until the first had %v", got)
	default:
	}
	third := ask(t.Context())
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	for _, got := range []answer{<-first, <-third} {
		if got.err != nil || got.version != "1.2.3" {
			t.Errorf("a waiting caller got %v", got)
		}
	}
	if n := asked(); n != 1 {
		t.Errorf("started %d times", n)
	}
}

// TestVersionWithoutWaiters checks that a program is killed when the caller that started
// it is cancelled, and that the next caller starts the program again.
func TestVersionWithoutWaiters(t *testing.T) {
	w := newWorld(t)
	opened, asked := w.blockedProgram()
	f := w.finder()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := f.Find(ctx, codex, &stint.Definition{})
		left <- err
	}()
	gate := opened()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled caller got %v", err)
	}
	var closed error
	for limit := time.Now().Add(time.Minute); closed == nil && time.Now().Before(limit); {
		_, closed = gate.WriteString("x") // writes succeed until the killed processes have closed the FIFO
	}
	if !errors.Is(closed, syscall.EPIPE) {
		t.Errorf("the program was not killed: %v", closed)
	}
	_ = gate.Close()
	answered := make(chan string, 1)
	go func() {
		found, err := f.Find(t.Context(), codex, &stint.Definition{})
		if err != nil {
			t.Error(err)
		}
		answered <- found.Version
	}()
	_ = opened().Close()
	if v := <-answered; v != "1.2.3" || asked() != 2 {
		t.Errorf("version %q, started %d times", v, asked())
	}
}

// TestNoVersion checks that a program that prints no version is started again after one
// minute, but not earlier.
func TestNoVersion(t *testing.T) {
	w := newWorld(t)
	count := w.at("count")
	w.file("usr/bin/codex", "#!/bin/sh\necho x >> '"+count+"'\n")
	f := w.finder()
	for i, want := range []string{"x\n", "x\n", "x\nx\n"} {
		if i == 2 {
			w.now = w.now.Add(time.Minute)
		}
		if _, err := f.Find(t.Context(), codex, &stint.Definition{}); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(count); err != nil || string(b) != want {
			t.Errorf("at %d it was started %q, %v, want %q", i, b, err, want)
		}
	}
}

// TestHostileVersions checks which version Find reads from output that is long, binary,
// or misleading.
func TestHostileVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"nothing":      {"exit 3", ""},
		"no version":   {"echo who knows", ""},
		"on stderr":    {"echo 'v2.1.0-beta.3' >&2", "2.1.0"},
		"an address":   {"echo 10.0.0.1 is no version of mine, 2.3.4 is", "10.0.0"},
		"huge numbers": {"echo 99999999999999999999.1.1 3.0.1", "3.0.1"},
		"long":         {"head -c 9000000 /dev/zero | tr '\\0' x", ""},
		"late":         {"head -c 20000 /dev/zero; echo 2.3.4", ""},
		"no text":      {`printf '\377\376\0 2.5.7\n'`, "2.5.7"},
		"environment":  {`[ -z "$STINT_SECRET" ] && [ "$HOME" = "$PWD" ] && echo 2.6.0`, "2.6.0"},
		"background":   {"sleep 600 & echo 2.7.0", "2.7.0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.env["STINT_SECRET"] = "x"
			w.file("usr/bin/claude", "#!/bin/sh\n"+c.script+"\n")
			if found := w.find(framework.Info{Name: "claude-code", Programs: []string{"claude"}}, stint.Definition{}); found.Version != c.want {
				t.Errorf("version %q, want %q", found.Version, c.want)
			}
		})
	}
}

func TestInventory(t *testing.T) {
	w := newWorld(t)
	w.file("home/bin/claude", printing("2.1.197 (Claude Code)"))
	type line struct{ Name, Version, Reason, Path string }
	var got []line
	for _, i := range w.finder().All(t.Context()) {
		l := line{Name: i.Name, Reason: i.Reason, Path: strings.TrimPrefix(i.Path, w.root+"/")}
		if i.Version != nil {
			l.Version = *i.Version
		}
		if i.Available != (i.Reason == "") {
			t.Errorf("%s is available: %v, because %q", i.Name, i.Available, i.Reason)
		}
		got = append(got, l)
	}
	want := []line{
		{Name: "shell"},
		{Name: "assistant"},
		{Name: "claude-code", Version: "2.1.197", Path: "home/bin/claude"},
		{Name: "codex", Reason: "The framework 'codex' needs the program 'codex', which is not installed on this server. Install it (npm install -g @openai/codex) or name it by STINT_CODEX_BIN, and try again."},
		{Name: "acp"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if listed := w.finder().Frameworks(t.Context()); len(listed) != 5 || listed[3].Available || listed[2].Version == nil {
		t.Errorf("%+v", listed)
	}
}

// TestCopies checks that the copy of a replaced program is kept as long as a run may use
// it, and then removed. Copies that an earlier process made are removed at once.
func TestCopies(t *testing.T) {
	w := newWorld(t)
	old := w.file("data/programs/old/codex", "old")
	at := w.file("home/bin/codex", binary+"one")
	f := w.finder()
	show := func() sandbox.Mount {
		found, err := f.Find(t.Context(), codex, &stint.Definition{})
		if err != nil || len(found.Mounts) != 1 {
			t.Fatalf("%+v: %v", found, err)
		}
		return found.Mounts[0]
	}
	read := func(m sandbox.Mount) string {
		b, err := os.ReadFile(filepath.Join(m.Source, "codex"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(string(b), binary)
	}
	first := show()
	if _, err := os.Stat(old); err == nil {
		t.Error("the copy of an earlier process still exists")
	}
	if again := show(); again.Source != first.Source {
		t.Errorf("the same program is in %s and %s", first.Source, again.Source)
	}
	next := w.file("home/next", binary+"second")
	if err := os.Rename(next, at); err != nil {
		t.Fatal(err)
	}
	if second := show(); read(first) != "one" || read(second) != "second" {
		t.Errorf("after an update the copies are %q and %q", read(first), read(second))
	}
	w.now = w.now.Add(stint.MaxTimeout)
	if still := show(); read(first) != "one" || read(still) != "second" {
		t.Errorf("while runs may use them the copies are %q and %q", read(first), read(still))
	}
	w.now = w.now.Add(48 * time.Hour)
	private := w.file("home/bin/codex", binary+"third")
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	third := show()
	if st, err := os.Stat(filepath.Join(third.Source, "codex")); err != nil || st.Mode().Perm() != 0o755 || read(third) != "third" {
		t.Errorf("a program of its owner only is copied as %v: %v", st, err)
	}
	if _, err := os.Stat(first.Source); err == nil {
		t.Error("the copy of a program that was replaced long ago still exists")
	}
}

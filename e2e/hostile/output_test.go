package hostile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// outputAttacks are directed at users and programs that read the files, log lines, and
// events of an agent.
var outputAttacks = []attack{
	{"artifact with unusual files", unusualFiles},
	{"tree deeper than any path", endlessPath},
	{"files that change while they are stored", swappedLinks},
	{"forged lines in the log", forgedLines},
	{"forged events in the stream", forgedEvents},
	{"output that is not text", binaryOutput},
	{"forged times", forgedTimes},
}

// oddNames are file names that many programs handle wrongly.
var oddNames = []string{"new\nline", "-rf", "--", "...", " ", "\x1b[31mred", "cr\r", "$(id)", "`id`", "'\"", `a\b`, "\u202eexe.gpj", "\xff\xfe", strings.Repeat("n", 255), "%2e%2e%2f", ".hidden"}

const unusualFilesProgram = `
import os, socket
def attempt(f, *a):
    try: f(*a)
    except OSError: pass
def make(name, data=b"x"):
    with open(name, "wb") as f: f.write(data)
for name in eval(os.environ["NAMES"]): make(name, name)
for target, name in (("/etc/shadow", "absolute"), ("../../../../../../etc/shadow", "up"), ("loop", "loop"), ("/proc/self/root", "proc"), (".", "self")): os.symlink(target, name)
os.makedirs("real/below"); os.symlink("real", "alias"); make("real/below/file")
make("hard"); attempt(os.link, "hard", "hard2")
attempt(os.mkfifo, "fifo"); attempt(os.mknod, "device", 0o20666, os.makedev(1, 5))
s = socket.socket(socket.AF_UNIX); s.bind("socket")
make("program", b"#!/bin/sh\n"); attempt(os.chmod, "program", 0o6755); attempt(os.chmod, "program", 0o2755); attempt(os.chmod, "program", 0o755)
attempt(os.chmod, "program", 0o4755)
os.makedirs("sticky"); attempt(os.chmod, "sticky", 0o3777)
with open("sparse", "wb") as f: f.truncate(1 << 24)
attempt(os.setxattr, "hard", "user.x", b"x")
make("closed"); os.chmod("closed", 0)
os.utime("real", (0, 0)); attempt(os.utime, "hard", (1 << 33, 1 << 33)); attempt(os.utime, "absolute", (-1, -1))
print("done")`

func unusualFiles(w *tenant) {
	names := "["
	for _, n := range oddNames {
		names += "b'"
		for _, b := range []byte(n) {
			names += `\x` + string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15])
		}
		names += "',"
	}
	r := w.run(stint.NewRun{Prompt: python(unusualFilesProgram), ArtifactName: "unusual", Variables: map[string]string{"NAMES": names + "]"}})
	entries := w.download("unusual", installation.Value(r.ArtifactVersion))
	for _, name := range oddNames {
		if e, ok := entries[name]; !ok || e.text != name {
			w.Errorf("the file %q was returned as %+v", name, e)
		}
	}
	for name, target := range map[string]string{"absolute": "/etc/shadow", "up": "../../../../../../etc/shadow", "loop": "loop", "proc": "/proc/self/root", "alias": "real"} {
		if e := entries[name]; e.Typeflag != tar.TypeSymlink || e.Linkname != target {
			w.Errorf("the link %s was returned as %+v", name, e)
		}
	}
	for _, name := range []string{"fifo", "device", "socket"} {
		if e, ok := entries[name]; ok {
			w.Errorf("%s was returned as %+v", name, e)
		}
	}
	if e := entries["program"]; e.Mode&0o7777 != 0o755 {
		w.Errorf("the program was returned with mode %o", e.Mode)
	}
	if e := entries["sparse"]; e.Size != 1<<24 {
		w.Errorf("the sparse file was returned with %d bytes", e.Size)
	}
	out := w.run(stint.NewRun{Prompt: "cat absolute up proc/etc/shadow 2> /dev/null; ls -A | wc -l; readlink absolute; echo more > more", ArtifactName: "unusual"})
	if got := w.output(out.ID); strings.Contains(got, "root:") || !strings.Contains(got, "/etc/shadow\n") {
		w.Errorf("the next run sees %q", got)
	}
	if n := len(w.download("unusual", installation.Value(out.ArtifactVersion))); n != len(entries)+1 {
		w.Errorf("the next version has %d entries, this one %d", n, len(entries))
	}
}

// entry is an entry of a tar archive, with at most the first KiB of its content.
type entry struct {
	tar.Header
	text string
}

// download returns the entries of a version's archive by name, and checks that the
// archive is safe to unpack.
func (w *tenant) download(artifact, version string) map[string]entry {
	w.Helper()
	id := ""
	for t, err := range w.client.Artifacts.List(w.Context()) {
		installation.Check(w, err)
		if t.Name == artifact {
			id = t.ID
		}
	}
	var archive bytes.Buffer
	_, err := w.client.Artifacts.Download(w.Context(), id, version, &archive)
	installation.Check(w, err)
	z, err := gzip.NewReader(&archive)
	installation.Check(w, err)
	all := map[string]entry{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		installation.Check(w, err)
		text, err := io.ReadAll(io.LimitReader(r, 1<<10))
		installation.Check(w, err)
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		checkSafe(w.T, h, name)
		all[name] = entry{*h, string(text)}
	}
}

func checkSafe(t *testing.T, h *tar.Header, name string) {
	t.Helper()
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		t.Errorf("%q is of type %c", h.Name, h.Typeflag)
	}
	if path.IsAbs(h.Name) || name != "" && path.Clean(name) != name || strings.HasPrefix(name, "../") || name == ".." {
		t.Errorf("%q leaves the tree", h.Name)
	}
	if h.Mode&0o7000 != 0 || h.Uid != 0 || h.Gid != 0 {
		t.Errorf("%q has mode %o and owner %d:%d", h.Name, h.Mode, h.Uid, h.Gid)
	}
	for key := range h.PAXRecords {
		if strings.Contains(key, "xattr") {
			t.Errorf("%q has the attribute %s", h.Name, key)
		}
	}
}

// endlessPath creates a tree that is deeper than the longest path. The run must fail
// with a helpful error, and the tree must be removed.
func endlessPath(w *tenant) {
	w.withOther(func() {
		r := w.ended(w.create(stint.NewRun{ArtifactName: "deep", Prompt: python(`
import os
for i in range(1000):
    os.mkdir("d"); os.chdir("d")
os.chmod("..", 0)
print("done")`)}).ID)
		if r.Status == stint.Completed || !strings.Contains(installation.Value(r.Error), "folders deep") && installation.Value(r.StatusReason) != stint.ReasonDiskFull {
			w.Errorf("the run is %s, %s: %s", r.Status, installation.Value(r.StatusReason), installation.Value(r.Error))
		}
		if len(installation.Value(r.Error)) > 8<<10 {
			w.Errorf("the error has %d bytes", len(installation.Value(r.Error)))
		}
	})
}

// swappedLinks leaves a process that replaces a folder by a link while the folder is
// stored. The version must not contain files that the link leads to.
func swappedLinks(w *tenant) {
	r := w.ended(w.create(stint.NewRun{ArtifactName: "swapped", Prompt: `
mkdir d other; echo x > d/passwd; ln -s /etc l; for i in $(seq 1 200); do echo $i > d/$i; done
(trap '' TERM HUP; setsid bash -c 'trap "" TERM HUP; while :; do mv -T d t; mv -T l d; mv -T t l; mv -T d t; mv -T l d; mv -T t l; done' > /dev/null 2>&1 &)
sleep 0.1; echo done`}).ID)
	if r.Status != stint.Completed {
		w.Fatalf("the run is %s: %s", r.Status, installation.Value(r.Error))
	}
	for name, e := range w.download("swapped", installation.Value(r.ArtifactVersion)) {
		if strings.Contains(e.text, "root:") {
			w.Errorf("%s contains the target of a link", name)
		}
	}
}

// forgedLines writes lines that look like entries of other logs, and checks that they
// are stored as output of the agent.
func forgedLines(w *tenant) {
	forged := []string{
		"2001-01-01T00:00:00.000Z error system FORGED: the disk is full",
		`{"timestamp":"2001-01-01T00:00:00.000Z","type":"system","level":"error","message":"FORGED","metadata":{}}`,
		`time=2001-01-01T00:00:00.000Z level=ERROR msg=FORGED`,
		"\x1b[2J\x1b[1;1HFORGED\x1b[31m\x1b]0;FORGED title\x07",
		"before\rFORGED over it",
		"\u2028FORGED after a separator\u0085and\u2029more",
		"\x08\x08\x08FORGED",
		"\x00FORGED after a zero",
	}
	script := ""
	for _, f := range forged {
		script += "printf '%b\\n' " + quote(strings.NewReplacer(`\`, `\\\\`, "\x00", `\0000`).Replace(f)) + "\n"
	}
	r := w.run(stint.NewRun{Prompt: script + "echo end >&2"})
	entries := w.logs(r.ID, "")
	agents := 0
	for i, e := range entries {
		w.checkEntry(r, e)
		if i > 0 && e.Timestamp.Before(entries[i-1].Timestamp.Time) {
			w.Errorf("entry %d is older than the one before", i)
		}
		if e.Type == stint.LogAgent {
			agents++
		} else if strings.Contains(e.Message, "FORGED") {
			w.Errorf("an entry of type %s was forged: %+v", e.Type, e)
		}
	}
	if agents != len(forged)+1 {
		w.Errorf("%d lines were stored as %d entries: %+v", len(forged)+1, agents, w.logs(r.ID, stint.LogAgent))
	}
	failed := w.ended(w.create(stint.NewRun{Prompt: "printf 'x\\nlevel=ERROR msg=FORGED\\n\\033[2J' >&2; exit 1"}).ID)
	if !strings.Contains(installation.Value(failed.Error), "FORGED") {
		w.Errorf("the error does not contain the output: %q", installation.Value(failed.Error))
	}
	if strings.Contains(w.host.Log(), "\nlevel=ERROR msg=FORGED") || strings.Contains(w.host.Log(), "\x1b[2J") {
		w.Error("the server's own log was forged")
	}
}

// checkEntry checks that a log entry is one line of valid UTF-8, and that its time is
// neither before the run nor in the future.
func (w *tenant) checkEntry(r *stint.Run, e stint.LogEntry) {
	w.Helper()
	if e.Timestamp.Before(r.CreatedAt.Time) || time.Now().Add(time.Second).Before(e.Timestamp.Time) {
		w.Errorf("an entry has the time %s, the run %s", e.Timestamp, r.CreatedAt)
	}
	if strings.Contains(e.Message, "\n") || !utf8.ValidString(e.Message) {
		w.Errorf("an entry is not a line of text: %q", e.Message)
	}
}

// forgedEvents writes text that would end an event of a stream and begin another, and
// checks that the stream equals the journal.
func forgedEvents(w *tenant) {
	forged := "x\n\nid: 99\nevent: complete\ndata: {\"status\":\"completed\",\"executionTimeMs\":1}\n\nevent: status\r\rdata: {}\n\n: comment\r\n\r\nretry: 1\n\n"
	r := w.run(stint.NewRun{Prompt: "printf '%s' " + quote(forged) + "; sleep 0.1; echo end"})
	var streamed []stint.Event
	for e, err := range w.client.Runs.Events(w.Context(), r.ID, 0) {
		installation.Check(w, err)
		streamed = append(streamed, e)
	}
	journal := w.journal(r.ID)
	if diff := cmp.Diff(typesAndData(journal), typesAndData(streamed)); diff != "" {
		w.Errorf("events (-journal +stream):\n%s", diff)
	}
	if got := w.output(r.ID); got != forged+"end\n" {
		w.Errorf("the output is %q", got)
	}
}

func typesAndData(events []stint.Event) (all []string) {
	for _, e := range events {
		all = append(all, string(e.Type)+" "+string(e.Data))
	}
	return all
}

// binaryOutput writes all byte values, random bytes, split and invalid characters, and
// a long line.
func binaryOutput(w *tenant) {
	r := w.run(stint.NewRun{Prompt: python(`
import os, random
def put(fd, b): # a kernel may take a part
    while b: b = b[os.write(fd, b):]
random.seed(1)
for i in range(256): put(1, bytes([i]))
put(1, b"\n")
for i in range(2000): put(1 + i % 2, random.randbytes(random.randint(1, 50)))
put(1, b"\xf0\x9f\x98"); put(1, b"\x80\n\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80\n")
put(1, b"x" * 300000 + b"\n")`)})
	if out := w.output(r.ID); !utf8.ValidString(out) || !strings.Contains(out, "\U0001F600") || !strings.Contains(out, strings.Repeat("x", 300000)) {
		w.Errorf("the output is incomplete; it has %d bytes", len(out))
	}
	for _, e := range w.logs(r.ID, "") {
		w.checkEntry(r, e)
	}
}

// forgedTimes sets other time zones and languages, and files with times far in the past
// and in the future.
func forgedTimes(w *tenant) {
	r := w.run(stint.NewRun{
		Prompt:    `export TZ=Pacific/Kiritimati LC_ALL=xx_XX.ISO-8859-1; date -s 2001-01-01 2> /dev/null && echo ESCAPED; date; touch -d 1901-01-01 old; touch -d 2200-01-01 new; printf 'caf\351\n'; echo end`,
		Variables: map[string]string{"TZ": "Pacific/Kiritimati", "LANG": "ar_EG.UTF-8"}, ArtifactName: "times",
	})
	if out := w.output(r.ID); strings.Contains(out, "ESCAPED") || !strings.Contains(out, "end") {
		w.Errorf("the output is %q", out)
	}
	for _, e := range w.logs(r.ID, "") {
		w.checkEntry(r, e)
	}
	w.download("times", installation.Value(r.ArtifactVersion))
}

package service_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// printTree is a script that prints, encoded in base64, the path, mode, time, kind,
// target, and SHA-256 of the entries below the working directory.
const printTree = `{ find . -mindepth 1 -printf '%p\0%m\0%T@\0%y\0%l\0'; printf '\0'; find . -type f -print0 | xargs -0 -r sha256sum -z; } | base64`

// tree maps each path to its mode, time, kind, target, and checksum, as printed by
// printTree.
type tree map[string][5]string

// parseTree returns the tree in the output of printTree.
func parseTree(t *testing.T, printed string) tree {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(strings.TrimSpace(printed), "\n", ""))
	if err != nil {
		t.Fatalf("%v in %q", err, printed)
	}
	fields := strings.Split(string(text), "\x00")
	s := tree{}
	for ; len(fields) > 5 && fields[0] != ""; fields = fields[5:] {
		s[fields[0]] = [5]string(append(slices.Clone(fields[1:5]), ""))
	}
	for _, f := range fields[1:] {
		if sum, path, ok := strings.Cut(f, "  "); ok {
			e := s[path]
			e[4] = sum
			s[path] = e
		}
	}
	return s
}

// readTree returns the tree below dir.
func readTree(t *testing.T, dir string) tree {
	t.Helper()
	return parseTree(t, shell(t, dir, printTree))
}

func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sh: %v\n%s", err, &errors)
	}
	return string(out)
}

// inSeconds returns a copy of the tree with times in whole seconds, the precision of a
// zip.
func (s tree) inSeconds() tree {
	s = maps.Clone(s)
	for p, e := range s {
		e[1], _, _ = strings.Cut(e[1], ".")
		s[p] = e
	}
	return s
}

var oddNames = []string{
	"a", "b", "c.txt", "Makefile", "new\nline", "-rf", "...", " ", "\x1b[31mred", "cr\r", "$(id)", "'\"", `a\b`, "\u202eexe.gpj",
	"\xff\xfe", "%2e%2e", ".hidden", "*", "é", "e\u0301", strings.Repeat("n", 120), "~", "#",
}

// changer generates shell scripts that make random changes in a folder.
type changer struct {
	*rand.Rand
	paths []string // the initial paths of the folder, and those that newPath returned
}

// script returns a script that makes n changes. The script ignores changes that fail.
func (c *changer) script(n int) string {
	var b strings.Builder
	b.WriteString("{ true\n")
	for range n {
		b.WriteString(c.change() + "\n")
	}
	b.WriteString("} 2>/dev/null\n:\n")
	return b.String()
}

func (c *changer) existingPath() string {
	if len(c.paths) == 0 {
		return quoted("./none")
	}
	return quoted(c.paths[c.IntN(len(c.paths))])
}

// newPath returns a path, quoted for a shell. Its parent is the working directory or a
// known path, which may not be a folder.
func (c *changer) newPath() string {
	dir := "."
	if len(c.paths) > 0 && c.IntN(3) > 0 {
		dir = c.paths[c.IntN(len(c.paths))]
	}
	if strings.Count(dir, "/") > 4 || len(dir) > 600 {
		dir = "."
	}
	p := "./" + path.Join(dir, oddNames[c.IntN(len(oddNames))])
	c.paths = append(c.paths, p)
	return quoted(p)
}

func (c *changer) time() string {
	return fmt.Sprintf("@%d.%09d", 1_000_000_000+c.IntN(700_000_000), c.IntN(1_000_000_000))
}

func (c *changer) change() string {
	mode := []string{"644", "600", "755", "700", "751"}[c.IntN(5)]
	switch c.IntN(14) {
	case 0:
		return "mv -T " + c.existingPath() + " " + c.newPath()
	case 1:
		return "rm -rf " + c.existingPath()
	case 2:
		return "printf more >>" + c.existingPath()
	case 3, 4:
		p := c.newPath()
		return fmt.Sprintf("printf %%s-%d%04d %s >%s; %s", c.IntN(9), c.IntN(9999), p, p, chmod(mode, p))
	case 5:
		return fmt.Sprintf("head -c %d /dev/urandom >%s", c.IntN(9000), c.newPath())
	case 6:
		return chmod(mode, c.existingPath())
	case 7:
		return "touch -h -d " + c.time() + " " + c.existingPath()
	case 8:
		return "ln -sfn " + c.existingPath() + " " + c.newPath()
	case 9, 10:
		p := c.newPath()
		return "mkdir -p " + p + "; " + chmod(mode, p)
	case 11:
		return "cp -aT " + c.existingPath() + " " + c.newPath()
	case 12:
		return "true >" + c.newPath()
	default: // change the content, but neither its length nor the modification time
		p := c.existingPath()
		return fmt.Sprintf(`if test -s %s -a -f %s; then touch -r %s /tmp/time.$$; printf %d | dd of=%s conv=notrunc; touch -r /tmp/time.$$ %s; fi`, p, p, p, c.IntN(9), p, p)
	}
}

// chmod returns a command that sets the mode of a path. Folders stay accessible to
// their owner.
func chmod(mode, p string) string {
	return fmt.Sprintf("chmod %s %s; test -d %s && chmod u+x %s", mode, p, p, p)
}

// quoted quotes a path for a shell. The path may contain any bytes except NUL.
func quoted(p string) string {
	var b strings.Builder
	for i := range len(p) {
		fmt.Fprintf(&b, `\%03o`, p[i])
	}
	return `"$(printf '` + b.String() + `')"`
}

// TestRandomFileRoundTrip changes random trees in local folders and in runs, and
// transfers them in every way, with every kind of storage. Content, modes, and times in
// nanoseconds must not change.
func TestRandomFileRoundTrip(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *installation.Host{
		"folder": func(t *testing.T) *installation.Host { return installation.New(t, "--parked", "1") },
		"encrypted": func(t *testing.T) *installation.Host {
			return installation.New(t, "--parked", "1", "--encrypt-storage", "on")
		},
		"bucket": func(t *testing.T) *installation.Host {
			server := bucketServer(t)
			installation.Check(t, server.NewBucket("bucket"))
			h := installation.New(t, "--parked", "1", "--storage", server.URL("bucket"), "--database", pgtest.URL(t))
			h.Env = server.Env()
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			h.Start()
			c := h.Login(t, "acme")
			installation.Agent(t, c, "shell", "")
			tree, err := c.Artifacts.Create(t.Context(), "tree")
			installation.Check(t, err)
			w := &roundTrip{T: t, c: c, tree: tree.ID, dir: t.TempDir(), caches: t.TempDir(), random: rand.New(rand.NewPCG(installation.Seed(t), 0))}
			w.push(80, `head -c 3200000 /dev/urandom >large; head -c 1600000 /dev/zero >zeros`)
			for round := range 3 {
				w.run(25, fmt.Sprintf(`printf %d | dd of=large bs=1 seek=%d conv=notrunc 2>/dev/null`, round, 900_000*round))
				w.push(10, "")
			}
			w.run(0, "")
		})
	}
}

// roundTrip is an artifact and a local folder, which contain the same tree after each
// push and each run. want is this tree.
type roundTrip struct {
	*testing.T
	c           *client.Client
	tree        string
	dir, caches string
	random      *rand.Rand
	want        tree
}

func (w *roundTrip) script(n int, more string) string {
	c := &changer{w.random, slices.Sorted(maps.Keys(w.want))}
	return more + "\n" + c.script(n)
}

func (w *roundTrip) remote(version string) transfer.ClientRemote {
	return transfer.ClientRemote{Client: w.c, Trees: w.c.Artifacts, ID: w.tree, Version: version}
}

// push makes n changes and those of the script more in the local folder, pushes the
// folder as a new version, and checks the download of the version.
func (w *roundTrip) push(n int, more string) {
	w.Helper()
	shell(w.T, w.dir, w.script(n, more))
	w.want = readTree(w.T, w.dir)
	_, err := transfer.Push(w.Context(), w.remote(""), w.dir, transfer.PushOptions{Cache: filepath.Join(w.caches, "cache")})
	installation.Check(w.T, err)
	w.same("download after a push", w.unpacked("tar.gz", "tar -xzpf - -C"), w.want)
}

// run makes n changes and those of the script more in a run, and checks the new
// version: it pulls the version into an empty folder and into the local folder, and
// downloads it in several formats.
func (w *roundTrip) run(n int, more string) {
	w.Helper()
	prompt := printTree + "; echo \\#\n" + w.script(n, more) + printTree
	r := installation.Ended(w.T, w.c, installation.Create(w.T, w.c, stint.NewRun{Prompt: prompt, ArtifactName: "tree"}).ID)
	if r.Status != stint.Completed {
		w.Fatalf("the run is %s: %v", r.Status, installation.Value(r.Error))
	}
	before, after, _ := strings.Cut(output(w.T, w.c, r.ID), "#\n")
	w.same("before the run", parseTree(w.T, before), w.want)
	w.want = parseTree(w.T, after)
	empty := w.TempDir()
	for dir, cache := range map[string]string{empty: "", w.dir: "cache"} { // w.dir contains the previous version
		if cache != "" {
			cache = filepath.Join(w.caches, cache)
		}
		_, err := transfer.Pull(w.Context(), w.remote(""), dir, transfer.PullOptions{Delete: true, Cache: cache})
		installation.Check(w.T, err)
		w.same("pull", readTree(w.T, dir), w.want)
	}
	w.same("tar.gz", w.unpacked("tar.gz", "tar -xzpf - -C"), w.want)
	w.same("tar", w.listed("tar", tarReader), w.want)
	w.same("zip", w.listed("zip", zipReader), w.want.inSeconds())
}

func (w *roundTrip) same(how string, got, want tree) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Fatalf("%s (-want +got):\n%s", how, diff)
	}
}

func (w *roundTrip) download(format string) *bytes.Buffer {
	w.Helper()
	var b bytes.Buffer
	_, err := w.c.Artifacts.DownloadAs(w.Context(), w.tree, "", format, &b)
	installation.Check(w.T, err)
	return &b
}

// unpacked downloads an archive and unpacks it with a shell command that reads standard
// input. unpacked appends the target folder to the command.
func (w *roundTrip) unpacked(format, program string) tree {
	w.Helper()
	dir := w.TempDir()
	cmd := exec.CommandContext(w.Context(), "sh", "-c", program+" "+dir)
	cmd.Stdin = w.download(format)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%s: %v\n%s", program, err, out)
	}
	return readTree(w.T, dir)
}

// Python programs that print the entries of a tar or zip archive in the format of
// printTree.
const (
	archiveReader = `
import base64, hashlib, struct, sys, tarfile, zipfile
out = sums = b""
def entry(path, mode, time, kind, target, body):
    global out, sums
    path = b"./" + path.rstrip(b"/")
    out += b"\0".join([path, b"%o" % mode, time.encode(), kind, target, b""])
    if kind == b"f": sums += hashlib.sha256(body).hexdigest().encode() + b"  " + path + b"\0"
`
	tarReader = archiveReader + `
def raw(text): return text.encode("utf-8", "surrogateescape")
with tarfile.open(sys.argv[1]) as archive:
    for i in archive:
        seconds, _, digits = i.pax_headers.get("mtime", str(i.mtime)).partition(".")
        kind = b"d" if i.isdir() else b"l" if i.issym() else b"f"
        body = archive.extractfile(i).read() if kind == b"f" else b""
        entry(raw(i.name), i.mode, seconds + "." + digits.ljust(10, "0"), kind, raw(i.linkname), body)
print(base64.b64encode(out + b"\0" + sums).decode())`
	zipReader = archiveReader + `
archive = zipfile.ZipFile(sys.argv[1])
for i in archive.infolist():
    mode, body = i.external_attr >> 16, archive.read(i)
    kind = {0o100000: b"f", 0o040000: b"d", 0o120000: b"l"}[mode & 0o170000]
    assert i.extra[:2] == b"UT"
    name = i.orig_filename.encode("utf-8" if i.flag_bits & 0x800 else "cp437")
    entry(name, mode & 0o777, str(struct.unpack("<i", i.extra[5:9])[0]), kind, body if kind == b"l" else b"", body)
print(base64.b64encode(out + b"\0" + sums).decode())`
)

// listed downloads an archive and returns the tree that a Python program prints for it.
func (w *roundTrip) listed(format, program string) tree {
	w.Helper()
	file := filepath.Join(w.TempDir(), "archive")
	installation.Check(w.T, os.WriteFile(file, w.download(format).Bytes(), 0o600))
	out, err := exec.CommandContext(w.Context(), "python3", "-c", program, file).CombinedOutput()
	if err != nil {
		w.Fatalf("python3: %v\n%s", err, out)
	}
	return parseTree(w.T, string(out))
}

// output waits until a run has ended and returns its output.
func output(t *testing.T, c *client.Client, run string) string {
	t.Helper()
	var text strings.Builder
	for e, err := range c.Runs.Events(t.Context(), run, 0) {
		installation.Check(t, err)
		var data stint.OutputData
		if e.Type == stint.EventOutput {
			installation.Check(t, json.Unmarshal(e.Data, &data))
			text.WriteString(data.Content)
		}
	}
	return text.String()
}

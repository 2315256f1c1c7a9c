package sandboxtest

import (
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox"
)

// imageCases test sandboxes with a root file system from an image.
var imageCases = map[string]func(*world){
	"image files are visible":     imageShown,
	"an image hides host files":   imageHidesHost,
	"an image is read-only":       imageReadOnly,
	"accounts in an image":        imageAccounts,
	"setuid programs in an image": imageGivesNoRights,
	"symbolic links in an image":  imageLinks,
	"mounts in an image":          mountsInImage,
	"mounts over image files":     mountsImageCannotHold,
	"a missing image":             imageMissing,
	"an image with a network":     imageWithNetwork,
}

// image creates the root file system of a small image with the suite's program, and
// returns its path.
func (w *world) image() string {
	w.Helper()
	dir := filepath.Join(w.dir, "image")
	for path, text := range map[string]string{
		"etc/os-release":      "NAME=Suite\n",
		"etc/passwd":          "root::0:0::/:\n",
		"etc/ssl/openssl.cnf": "x",
		"entry":               "entry",
		"var/lib/state":       "state",
		"home/node/f":         "home",
		"opt/have/inside/f":   "opt",
		"data/f":              "covered",
		"tmp/f":               "hidden",
	} {
		full := filepath.Join(dir, path)
		w.must(os.MkdirAll(filepath.Dir(full), 0o755))
		w.must(os.WriteFile(full, []byte(text), 0o644))
	}
	w.must(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755))
	w.must(os.Link(filepath.Join(w.suite.tools, programName), filepath.Join(dir, "usr/bin", programName)))
	w.must(os.Symlink("usr/bin", filepath.Join(dir, "bin")))
	w.addLibraries(dir)
	return dir
}

// addLibraries copies the dynamic loader and the shared libraries of the test binary into
// the image. If the test binary was built without cgo, addLibraries does nothing.
func (w *world) addLibraries(image string) {
	w.Helper()
	f, err := elf.Open(filepath.Join(w.suite.tools, programName))
	w.must(err)
	defer f.Close()
	needed, err := f.ImportedLibraries()
	w.must(err)
	interpreter := f.Section(".interp")
	if interpreter == nil {
		return
	}
	path, err := interpreter.Data()
	w.must(err)
	loader := strings.TrimRight(string(path), "\x00")
	libraries := filepath.Join(image, "usr/lib")
	w.must(os.MkdirAll(libraries, 0o755))
	w.must(os.MkdirAll(filepath.Join(image, filepath.Dir(loader)), 0o755))
	w.writeProgram(filepath.Join(image, loader), w.hostFile(loader))
	real, err := filepath.EvalSymlinks(loader)
	w.must(err)
	for _, name := range needed {
		w.must(os.WriteFile(filepath.Join(libraries, name), []byte(w.hostFile(filepath.Dir(real), name)), 0o755))
	}
}

func (w *world) imageSpec() sandbox.Spec {
	w.Helper()
	s := w.spec()
	s.Image, s.Mounts = w.image(), nil
	return s
}

// runInImage runs one of the suite's programs from the image and returns the program's
// output. The program must exit with code 0.
func (w *world) runInImage(s sandbox.Spec, args ...string) string {
	w.Helper()
	c := sandbox.Command{Argv: append([]string{programName}, args...), Env: []string{"PATH=/bin", noExitDelay}}
	r := w.start(w.prepare(s), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	return r.stdout.String()
}

func imageShown(w *world) {
	w.want("files of the image", "NAME=Suite\nentrystatehomeopt",
		w.runInImage(w.imageSpec(), "read", "/etc/os-release", "/entry", "/var/lib/state", "/home/node/f", "/opt/have/inside/f"))
}

// imageHidesHost checks that files that exist on the host, but not in the image, do not
// exist inside the sandbox.
func imageHidesHost(w *world) {
	s := w.imageSpec()
	own := []string{"dev", "proc", "tmp", "run", "sys", "home", "var", "var/tmp", "etc", "usr", "bin"}
	for _, f := range []string{"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "machine-id", "mtab", "os-release", "ssl"} {
		own = append(own, "etc/"+f)
	}
	made := map[string]bool{}
	for _, o := range own {
		made[o] = true
	}
	args := []string{"try-open", "/.image", "/.host", "/tmp/f"}
	for _, dir := range []string{".", "etc", "usr", "usr/bin", "var", "opt", "home"} {
		entries, err := os.ReadDir(filepath.Join("/", dir))
		if err != nil {
			continue // this host does not have the folder
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if _, err := os.Lstat(filepath.Join(s.Image, path)); err != nil && !made[path] {
				args = append(args, "/"+path)
			}
		}
	}
	if len(args) < 50 {
		w.Fatalf("this host has only %d files that could be visible", len(args))
	}
	w.runInImage(s, args...)
}

func imageReadOnly(w *world) {
	w.runInImage(w.imageSpec(), "try-write", "/x", "/usr/x", "/usr/bin/"+programName, "/etc/x", "/etc/os-release", "/etc/passwd", "/home/x", "/home/node/f", "/var/x", "/var/lib/x", "/opt/x", "/entry", "/run/x", "/dev/x")
}

func imageAccounts(w *world) {
	got := w.runInImage(w.imageSpec(), "read", "/etc/passwd")
	if !strings.Contains(got, "\nagent:x:1000:1000:agent:"+sandbox.HomeDir+":/bin/sh\n") || strings.Contains(got, "root::0") {
		w.Errorf("accounts are %q", got)
	}
}

// imageGivesNoRights checks that a setuid program of an image runs without additional
// privileges.
func imageGivesNoRights(w *world) {
	s := w.imageSpec()
	raised := filepath.Join(s.Image, "raised")
	w.must(os.Mkdir(raised, 0o755))
	w.writeProgram(filepath.Join(raised, programName), w.hostFile(w.suite.tools, programName))
	w.must(os.Chmod(filepath.Join(raised, programName), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	r := w.start(w.prepare(s), sandbox.Command{Argv: []string{"/raised/" + programName, "print-status"}})
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if got := r.stdout.String(); !strings.HasPrefix(got, "Uid:1000 1000 1000 1000\nGid:1000 1000 1000 1000\n") || !strings.Contains(got, "CapEff:0000000000000000\n") {
		w.Errorf("rights are %q", got)
	}
}

// imageLinks replaces folders of the image, which a driver uses to build the root, by
// symbolic links to a folder of the host. The host's files must remain hidden.
func imageLinks(w *world) {
	s := w.imageSpec()
	secret := filepath.Join(w.dir, "secret")
	w.must(os.Mkdir(secret, 0o755))
	w.must(os.WriteFile(filepath.Join(secret, "key"), []byte("key"), 0o644))
	args := []string{"try-open", secret, "/etc/shadow"}
	for _, name := range []string{"etc", "var", "home", "tmp", "dev", "proc", "run", "workspace", "opt"} {
		w.must(os.RemoveAll(filepath.Join(s.Image, name)))
		w.must(os.Symlink(secret, filepath.Join(s.Image, name)))
		args = append(args, "/"+name+"/key")
	}
	w.must(os.Symlink("/", filepath.Join(s.Image, "all")))
	args = append(args, "/all/etc/shadow", "/all"+secret)
	w.runInImage(s, args...)
}

func mountsInImage(w *world) {
	s := w.imageSpec()
	given := filepath.Join(w.dir, "given")
	w.must(os.Mkdir(given, 0o700))
	w.must(os.WriteFile(filepath.Join(given, "f"), []byte("data,"), 0o600))
	for _, target := range []string{"/data", "/new/deep", "/opt/have", "/home/other", "/var/cache/new"} {
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: given, Target: target})
	}
	w.want("mounts", "data,data,data,data,data,",
		w.runInImage(s, "read", "/data/f", "/new/deep/f", "/opt/have/f", "/home/other/f", "/var/cache/new/f"))
	if _, err := os.Lstat(filepath.Join(s.Image, "new")); err == nil {
		w.Error("a mount's folder was created in the image")
	}
}

func mountsImageCannotHold(w *world) {
	image := w.image()
	for _, target := range []string{"/opt/missing", "/usr/bin/x", "/bin/x", "/bin", "/entry", "/entry/x", "/var/tmp/x", "/var/lib/x/y"} {
		s := w.spec()
		s.Image = image
		s.Mounts = []sandbox.Mount{{Source: w.suite.tools, Target: target}}
		b, err := w.driver.Prepare(w.Context(), s)
		w.wantSentence(err)
		if err == nil {
			w.Errorf("a mount at %s succeeds", target)
			w.must(b.Close(w.Context()))
		}
	}
}

func imageMissing(w *world) {
	s := w.spec()
	s.Image = filepath.Join(w.dir, "missing")
	_, err := w.driver.Prepare(w.Context(), s)
	w.wantSentence(err)
}

func imageWithNetwork(w *world) {
	if !w.suite.Network {
		return // the driver does not support networks
	}
	b, f := w.serveNetwork(w.imageSpec())
	r := w.start(b, sandbox.Command{Argv: []string{"/bin/" + programName, "dial", "api.example.test:443"}})
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	targets, _ := f.seen()
	w.want("connections", "198.18.0.7:443", strings.Join(targets, "\n"))
}

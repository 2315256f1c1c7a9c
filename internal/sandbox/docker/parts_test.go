//go:build linux && (amd64 || arm64)

package docker_test

import (
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/docker"
)

// told gives what the daemon was told of a sandbox.
func (w *world) told(instance, id string) *container.HostConfig {
	w.Helper()
	got, err := w.api().ContainerInspect(context.Background(), "stint-"+instance+"-"+id, client.ContainerInspectOptions{})
	w.must(err)
	return got.Container.HostConfig
}

func limitsOf(h *container.HostConfig) map[string]int64 {
	pids := int64(0)
	if h.PidsLimit != nil {
		pids = *h.PidsLimit
	}
	return map[string]int64{"quota": h.CPUQuota, "memory": h.Memory, "with swap": h.MemorySwap, "pids": pids}
}

func TestLimitsAndAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *docker.Config) { c.Instance = "limits" })
	s := w.spec()
	s.Resources = sandbox.Resources{CPU: 1.5, Memory: 256 << 20, Pids: 100}
	b := w.prepare(s)
	defer w.close(b)
	want := map[string]int64{"quota": 150_000, "memory": 256 << 20, "with swap": 256 << 20, "pids": 116} // 16 for the warden
	if diff := cmp.Diff(want, limitsOf(w.told("limits", s.ID))); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	shares := map[string]int64{}
	for _, u := range w.told("limits", s.ID).Ulimits {
		shares[u.Name] = u.Hard
	}
	if diff := cmp.Diff(map[string]int64{"sigpending": 1024, "msgqueue": 128 << 10}, shares); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	mounts := []sandbox.Mount{{Source: t.TempDir(), Target: "/data"}}
	if err := b.Attach(t.Context(), s.Resources, mounts); !errors.Is(err, sandbox.ErrAttach) {
		t.Errorf("attaching a mount: %v, want %v", err, sandbox.ErrAttach)
	}
	if err := b.Attach(t.Context(), sandbox.Resources{}, nil); !errors.Is(err, sandbox.ErrAttach) {
		t.Errorf("taking limits away: %v, want %v", err, sandbox.ErrAttach)
	}
	w.must(b.Attach(t.Context(), sandbox.Resources{CPU: 0.5, Memory: 512 << 20, Pids: 50}, nil))
	want = map[string]int64{"quota": 50_000, "memory": 512 << 20, "with swap": 512 << 20, "pids": 66}
	if diff := cmp.Diff(want, limitsOf(w.told("limits", s.ID))); diff != "" {
		t.Errorf("limits after Attach (-want +got):\n%s", diff)
	}
	if u, err := b.Usage(t.Context()); err != nil || u.MemoryLimit != 512<<20 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if err := b.Attach(t.Context(), sandbox.Resources{CPU: 1, Memory: 1 << 30, Pids: 9}, nil); !errors.Is(err, sandbox.ErrAttach) {
		t.Errorf("attaching twice: %v, want %v", err, sandbox.ErrAttach)
	}
}

// TestNothingIsLeft compares what the host and the daemon hold before and after
// sandboxes that ended in various ways.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t, func(c *docker.Config) { c.Instance = "left" })
	before := w.holdings()
	for range 2 {
		w.close(w.prepare(w.spec()))
		b := w.prepare(w.spec())
		if out, e := w.run(b, "/bin/true"); e.Code != 0 {
			t.Fatalf("exit %+v: %s", e, out)
		}
		w.close(b)
		b = w.prepare(w.spec())
		if err := b.Start(t.Context(), sandbox.Command{Argv: []string{"/no/such/program"}}); err == nil {
			t.Fatal("a program that does not exist was started")
		}
		w.close(b)
		s := w.spec()
		s.Network, s.Mounts = true, []sandbox.Mount{{Source: "/no/such/folder", Target: "/data"}}
		if _, err := w.driver.Prepare(t.Context(), s); err == nil {
			t.Fatal("a folder that does not exist was mounted")
		}
	}
	if diff := cmp.Diff(before, w.holdings()); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}

func (w *world) holdings() map[string]int {
	w.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	w.must(err)
	boxes, err := filepath.Glob(filepath.Join(w.config.StateDir, "*/*"))
	w.must(err)
	list, err := w.api().ContainerList(context.Background(), client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", "dev.stint.instance="+w.config.Instance),
	})
	w.must(err)
	return map[string]int{"mounts": strings.Count(string(mounts), w.config.StateDir), "boxes": len(boxes), "containers": len(list.Items)}
}

// TestHugeEtc: what would not fit into memory is not read.
func TestHugeEtc(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := w.spec()
	s.Image = t.TempDir()
	huge := filepath.Join(s.Image, "etc", "huge")
	w.must(os.Mkdir(filepath.Dir(huge), 0o755))
	w.must(os.WriteFile(huge, nil, 0o644))
	w.must(os.Truncate(huge, 1<<43))
	if _, err := w.driver.Prepare(t.Context(), s); err == nil || !strings.Contains(err.Error(), "holds more than 64 MB") {
		t.Errorf("an /etc of 8 TB: %v", err)
	}
}

// TestSweepRemovesRoots: the daemon keeps no root of an image that nobody uses.
func TestSweepRemovesRoots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	roots := func() (names []string) {
		t.Helper()
		list, err := w.api().ImageList(t.Context(), client.ImageListOptions{})
		w.must(err)
		for _, i := range list.Items {
			if i.Labels["dev.stint.instance"] == "roots" {
				names = append(names, i.RepoTags...)
			}
		}
		return names
	}
	w.config.Instance = "roots"
	earlier, err := docker.New(w.config)
	w.must(err)
	s := w.spec()
	s.Image = t.TempDir()
	w.must(os.MkdirAll(filepath.Join(s.Image, "etc", "only-here"), 0o755))
	b, err := earlier.Prepare(t.Context(), s)
	w.must(err)
	w.must(earlier.Sweep(t.Context()))
	if got := roots(); len(got) != 2 {
		t.Errorf("in use are %d roots, want the host's and the image's", len(got))
	}
	w.close(b)
	w.must(earlier.Close())
	later, err := docker.New(w.config)
	w.must(err)
	w.must(later.Sweep(t.Context()))
	if got := roots(); len(got) != 1 {
		t.Errorf("after the sweep there are %d roots, want the host's", len(got))
	}
	w.must(later.Close())
}

// TestSweepKeepsFiles: whatever state a crash left, a file is never removed.
func TestSweepKeepsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	box := filepath.Join(w.config.StateDir, "boxes", "run_old")
	file := filepath.Join(box, "mounts", "0", "file")
	w.must(os.MkdirAll(filepath.Dir(file), 0o700))
	w.must(os.MkdirAll(filepath.Join(box, "mounts", "1"), 0o700))
	w.must(os.WriteFile(file, []byte("the user's"), 0o600))
	if err := w.driver.Sweep(t.Context()); err == nil {
		t.Error("a sweep that could not remove all says nothing")
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
	w.must(os.Remove(file))
	w.must(w.driver.Sweep(t.Context()))
	if _, err := os.Stat(box); err == nil {
		t.Error("what is empty was not removed")
	}
}

func TestTrustBundle(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, []byte("the bundle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *docker.Config) { c.TrustBundle = bundle })
	script := "for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem /etc/ssl/ca-bundle.pem; do [ -e $f ] && cat $f; done"
	image := w.spec()
	image.Image = w.image()
	for name, s := range map[string]sandbox.Spec{"host": w.spec(), "image": image} {
		got := w.shell(s, script)
		if got == "" || strings.ReplaceAll(got, "the bundle\n", "") != "" {
			t.Errorf("%s: the trusted certificates are %q", name, got)
		}
	}
}

// image is the host's programs with an /etc whose stores are links.
func (w *world) image() string {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "image")
	w.must(os.MkdirAll(filepath.Join(dir, "etc/ssl"), 0o755))
	w.must(os.Symlink("../../usr/nowhere.pem", filepath.Join(dir, "etc/ssl/cert.pem")))
	for _, name := range []string{"bin", "lib", "lib64"} {
		target, err := os.Readlink("/" + name)
		if err != nil {
			w.must(os.MkdirAll(filepath.Join(dir, name), 0o755))
			w.copyTree("/"+name, filepath.Join(dir, name))
			continue
		}
		w.must(os.Symlink(target, filepath.Join(dir, name)))
	}
	w.must(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755))
	for _, program := range []string{"/bin/sh", "/bin/cat"} {
		w.copyProgram(program, dir)
	}
	return dir
}

// copyTree makes the folders of a system that has /bin and /usr/bin apart.
func (w *world) copyTree(from, to string) {
	w.Helper()
	w.must(os.CopyFS(to, os.DirFS(from)))
}

// copyProgram copies a program and the libraries that it is linked to.
func (w *world) copyProgram(program, dir string) {
	w.Helper()
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not a dynamic") {
		w.Fatalf("ldd: %v, %s", err, out)
	}
	files := []string{program}
	for f := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(f, "/") {
			files = append(files, f)
		}
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		w.must(err)
		at := filepath.Join(dir, "usr", f)
		if strings.HasPrefix(f, "/usr") {
			at = filepath.Join(dir, f)
		}
		w.must(os.MkdirAll(filepath.Dir(at), 0o755))
		w.must(os.WriteFile(at, b, 0o755))
	}
}

// TestDoorIsShut looks for what the warden came in by.
func TestDoorIsShut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	got := w.shell(w.spec(), "ls /.stint/; /.stint/stint-warden; echo end")
	if strings.Count(got, "ermission denied") != 2 || !strings.HasSuffix(got, "end\n") {
		t.Errorf("the agent sees %q", got)
	}
	s := w.spec()
	b := w.prepare(s)
	defer w.close(b)
	left, err := os.ReadDir(filepath.Join(w.config.StateDir, "boxes", s.ID, "door"))
	if err != nil || len(left) > 0 {
		t.Errorf("the door's folder holds %v, %v", left, err)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*docker.Config)
		want   string
	}{
		"no daemon":       {func(c *docker.Config) { c.Host = "unix:///nowhere/docker.sock" }, "systemctl start docker"},
		"elsewhere":       {func(c *docker.Config) { c.Host = "tcp://127.0.0.1:1" }, "unix://"},
		"no runtime":      {func(c *docker.Config) { c.Runtime = "nothing" }, `runtime "nothing"`},
		"dynamic program": {func(c *docker.Config) { c.Binary = dynamicProgram(t) }, "CGO_ENABLED=0"},
		"no program":      {func(c *docker.Config) { c.Binary = "/dev/null" }, "warden"},
	} {
		conf := config(t.TempDir())
		c.change(&conf)
		_, err := docker.New(conf)
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %v and %q", name, err, sandbox.ErrUnavailable, c.want)
		}
	}
}

func dynamicProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Section(".interp") == nil {
		t.Fatalf("%s is linked statically", path)
	}
	return path
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*docker.Config){
		"no folder":       func(c *docker.Config) { c.StateDir = "" },
		"bad instance":    func(c *docker.Config) { c.Instance = "Not Good" },
		"file for folder": func(c *docker.Config) { c.StateDir = "/dev/null/x" },
		"seen by agents":  func(c *docker.Config) { c.Private = []string{"/usr/bin"} },
		"no bundle":       func(c *docker.Config) { c.TrustBundle = "/no/such/bundle" },
	} {
		conf := config(t.TempDir())
		change(&conf)
		if d, err := docker.New(conf); err == nil {
			t.Errorf("%s: accepted", name)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

package service_test

import (
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/transfer"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// TestBucketFaultsAtEndOfRun checks that a run completes with all its files if faults
// of the bucket at the end of the run are temporary, and fails with an error if they
// are permanent.
func TestBucketFaultsAtEndOfRun(t *testing.T) {
	t.Parallel()
	server := bucketServer(t)
	installation.Check(t, server.NewBucket("bucket"))
	h := installation.New(t, "--storage", server.URL("bucket"), "--gc-every", "0")
	h.Env = server.Env()
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	for _, end := range []struct {
		how    string
		fault  func(try int) s3test.Fault // fault of attempt number try (1, 2, …) to write an object; nil means no faults
		status stint.Status
	}{
		{"well", nil, stint.Completed},
		{"refused", func(try int) s3test.Fault { return []s3test.Fault{s3test.None, s3test.Refuse}[try%2] }, stint.Completed},
		{"broken", func(try int) s3test.Fault { return []s3test.Fault{s3test.None, s3test.Half, s3test.Lose}[try%3] }, stint.Completed},
		{"denied", func(int) s3test.Fault { return s3test.Deny }, stint.Failed},
	} {
		tries := map[string]int{}
		server.Break(func(_ int, r *http.Request) s3test.Fault {
			if r.Method != http.MethodPut || end.fault == nil {
				return s3test.None
			}
			tries[r.URL.String()]++
			return end.fault(tries[r.URL.String()])
		})
		n := stint.NewRun{Prompt: "head -c 300000 /dev/urandom >" + end.how + "; mkdir -p d; echo " + end.how + " >d/last; " + listing, ArtifactName: "out"}
		r := installation.Ended(t, c, installation.Create(t, c, n).ID)
		server.Break(nil)
		if r.Status != end.status || r.Status == stint.Failed && (r.Error == nil || *r.Error == "") {
			t.Errorf("%s: the run is %s: %v", end.how, r.Status, r.Error)
			continue
		}
		if r.Status == stint.Failed {
			t.Logf("%s: %s", end.how, *r.Error)
			continue
		}
		if got, want := stored(t, c, *r.ArtifactVersion), printed(t, c, r.ID); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: the version has %q, the agent wrote %q", end.how, got, want)
		}
	}
	checkStorage(t, h)
}

// checkStorage runs the garbage collection without a grace period, and checks that fsck
// then finds neither unreferenced nor damaged objects.
func checkStorage(t *testing.T, h *installation.Host) {
	t.Helper()
	for _, args := range [][]string{{"gc", "--grace", "0"}, {"fsck", "--json"}} {
		out, err := exec.CommandContext(t.Context(), installation.Binary(t), append(args, "--data", h.Data)...).CombinedOutput()
		if err != nil {
			t.Fatalf("stint %s: %v\n%s", args[0], err, out)
		}
		if args[0] == "fsck" && !regexp.MustCompile(`"orphans":0\b.*"damaged":0\b`).Match(out) {
			t.Errorf("fsck reports:\n%s", out)
		}
	}
}

// TestFullDisk checks that a push of more bytes than the disk can store fails with a
// helpful error, and that the earlier version can still be pulled.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	installation.Check(t, unix.Mount("disk", disk, "tmpfs", 0, "size=12m"))
	t.Cleanup(func() { installation.Check(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	h := installation.New(t, "--storage", filepath.Join(disk, "blobs"), "--gc-every", "0")
	h.Start()
	c := h.Login(t, "acme")
	tree, err := c.Volumes.Create(t.Context(), "data")
	installation.Check(t, err)
	remote := transfer.ClientRemote{Client: c, Trees: c.Volumes, ID: tree.ID}
	dir := t.TempDir()
	shell(t, dir, "head -c 3000000 /dev/urandom >fits")
	_, err = transfer.Push(t.Context(), remote, dir, transfer.PushOptions{})
	installation.Check(t, err)
	want := readTree(t, dir)
	large := make([]byte, 20_000_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	_, _, err = c.Volumes.Push(apitest.AllowFailure(t.Context()), tree.ID, packed(t, map[string]string{"large": string(large)}), &client.PushOptions{ContentType: "application/x-tar"})
	if err == nil || !strings.Contains(err.Error(), "The disk that files are stored on is full.") {
		t.Errorf("a push that does not fit returned %v", err)
	}
	checkStorage(t, h)
	to := t.TempDir()
	_, err = transfer.Pull(t.Context(), remote, to, transfer.PullOptions{})
	installation.Check(t, err)
	if got := readTree(t, to); len(got) != 1 || got["./fits"] != want["./fits"] {
		t.Errorf("the earlier content is %q, want %q", got, want)
	}
}

// TestFullTemporaryFolder checks that a push fails with a helpful error if the server's
// disk for temporary files is full.
func TestFullTemporaryFolder(t *testing.T) {
	t.Parallel()
	h := installation.New(t, "--gc-every", "0")
	h.Start() // removes and creates the folder
	temporary := filepath.Join(h.Data, "tmp")
	installation.Check(t, unix.Mount("tmp", temporary, "tmpfs", 0, "size=1m,mode=0700"))
	t.Cleanup(func() { installation.Check(t, unix.Unmount(temporary, unix.MNT_DETACH)) })
	c := h.Login(t, "acme")
	tree, err := c.Volumes.Create(t.Context(), "data")
	installation.Check(t, err)
	// The server reads the rest of a request before it closes the connection, if the rest is
	// below 256 KiB. A client that is still sending may not see the response.
	large := make([]byte, 1_150_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	_, _, err = c.Volumes.Push(apitest.AllowFailure(t.Context()), tree.ID, packed(t, map[string]string{"large": string(large)}), &client.PushOptions{ContentType: "application/x-tar"})
	if err == nil || !strings.Contains(err.Error(), "The disk for temporary files is full.") {
		t.Errorf("a push that does not fit returned %v", err)
	}
}

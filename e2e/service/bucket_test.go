package service_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/blob/s3/s3test"
)

// TestFilesInBucket checks that a service with a bucket can read its files again after
// it was killed, and that its log does not contain the credentials.
func TestFilesInBucket(t *testing.T) {
	server := bucketServer(t)
	installation.Check(t, server.NewBucket("bucket"))
	h := installation.New(t, "--storage", server.URL("bucket"))
	h.Env = server.Env()
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", `,"volumes":{"texts":{"path":"/data"}}`)
	volume, err := c.Volumes.Create(t.Context(), "texts")
	installation.Check(t, err)
	_, _, err = c.Volumes.Push(t.Context(), volume.ID, packed(t, map[string]string{"a.txt": "alpha\n", "b.txt": "beta\n"}), &client.PushOptions{ContentType: "application/x-tar"})
	installation.Check(t, err)

	r := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Prompt: "cat /data/*.txt > all.txt", ArtifactName: "made"}).ID)
	if r.Status != stint.Completed {
		t.Fatalf("the run is %s: %v", r.Status, r.Error)
	}
	checkArtifacts(t, c)
	h.Stop(syscall.SIGKILL)
	h.Start()
	checkArtifacts(t, c)
	log := h.Log()
	for _, pair := range server.Env() {
		if _, value, _ := strings.Cut(pair, "="); strings.Contains(log, value) {
			t.Errorf("the log shows the credential %s", pair)
		}
	}
	if !strings.Contains(log, "s3://bucket/") || !strings.Contains(log, "127.0.0.1") {
		t.Error("the log does not contain the bucket and its endpoint")
	}
}

func checkArtifacts(t *testing.T, c *client.Client) {
	t.Helper()
	found := map[string]string{}
	for artifact, err := range c.Artifacts.List(t.Context()) {
		installation.Check(t, err)
		found[artifact.Name] = unpacked(t, c, artifact.ID, "all.txt")
	}
	if diff := cmp.Diff(map[string]string{"made": "alpha\nbeta\n"}, found); diff != "" {
		t.Errorf("the artifacts (-want +got):\n%s", diff)
	}
}

// TestMissingBucket checks that a server exits with a helpful error if its bucket does
// not exist.
func TestMissingBucket(t *testing.T) {
	server := bucketServer(t)
	cmd := exec.CommandContext(t.Context(), installation.Binary(t), "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--storage", server.URL("nowhere"))
	cmd.Env = append(cmd.Environ(), server.Env()...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has no bucket 'nowhere'; create it, or name another") {
		t.Errorf("serve returned %v with the output:\n%s", err, out)
	}
}

func bucketServer(t *testing.T) *s3test.Server {
	t.Helper()
	server, err := s3test.Start()
	installation.Check(t, err)
	t.Cleanup(func() { installation.Check(t, server.Close()) })
	return server
}

func packed(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		installation.Check(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := io.WriteString(w, content)
		installation.Check(t, err)
	}
	installation.Check(t, w.Close())
	return &b
}

// unpacked downloads the current version of an artifact and returns the content of one
// file.
func unpacked(t *testing.T, c *client.Client, id, name string) string {
	t.Helper()
	var archive bytes.Buffer
	_, err := c.Artifacts.Download(t.Context(), id, "", &archive)
	installation.Check(t, err)
	cmd := exec.CommandContext(t.Context(), "tar", "-xzO", name)
	cmd.Stdin = &archive
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("unpacking: %v\n%s", err, out)
	}
	return string(out)
}

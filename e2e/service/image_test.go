package service_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/image/imagetest"
)

// inspector is a program that prints the entries of its root folder, a variable, and a
// file of the image. It also prints whether it can change the file, see programs of the
// host, and write to its working directory.
const inspector = `package main

import (
	"fmt"
	"os"
)

func main() {
	entries, err := os.ReadDir("/")
	fmt.Println("root:", err)
	for _, e := range entries {
		fmt.Print(e.Name(), " ")
	}
	fmt.Println()
	fmt.Println("VARIABLE is", os.Getenv("VARIABLE"))
	text, err := os.ReadFile("/data/file")
	fmt.Println("file:", string(text), err)
	fmt.Println("changed:", os.WriteFile("/data/file", nil, 0o644) == nil)
	_, err = os.Stat("/usr/bin/env")
	fmt.Println("the host's programs:", err == nil)
	fmt.Println("written:", os.WriteFile("out.txt", []byte("from an image"), 0o644))
}
`

// TestImages runs an agent in an image from a local registry. The definition names the
// image by its tag or by its digest.
func TestImages(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	registry := imagetest.Registry(t)
	ref, digest := imagetest.Push(t, registry, "acme/inspector:1", map[string]imagetest.File{
		"bin/inspector": {Data: program(t, inspector), Mode: 0o755},
		"data/file":     {Data: []byte("of the image"), Mode: 0o644},
	}, v1.Config{Env: []string{"VARIABLE=set by the image", "PATH=/bin"}})
	repository, _, _ := strings.Cut(ref, ":1")
	for name, r := range map[string]string{"tagged": ref, "pinned": repository + "@" + digest} {
		imageAgent(t, c, name, r)
		created := installation.Create(t, c, stint.NewRun{Agent: name, Prompt: "look", ArtifactName: name})
		run := installation.Ended(t, c, created.ID)
		if run.Status != stint.Completed || run.ArtifactVersion == nil {
			t.Fatalf("%s: the run is %s: %v", name, run.Status, run.Error)
		}
		out := transcript(t, c, run.ID)
		for _, want := range []string{"VARIABLE is set by the image", "file: of the image <nil>", "changed: false", "the host's programs: false", "written: <nil>"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the output lacks %q:\n%s", name, want, out)
			}
		}
	}
	if left := h.Leftovers(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestInvalidImages checks the errors for images that cannot be used. An invalid
// reference is refused in the definition; other faults make the run fail.
func TestInvalidImages(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	registry := imagetest.Registry(t)
	ref, _ := imagetest.Push(t, registry, "acme/real:1", map[string]imagetest.File{"bin/x": {Data: []byte("x"), Mode: 0o755}}, v1.Config{})
	repository, _, _ := strings.Cut(ref, ":1")
	_, err := c.Agents.Create(t.Context(), json.RawMessage(`{"name":"odd","framework":"shell","image":"No Such Thing!"}`))
	if refusal, ok := errors.AsType[*client.Error](err); !ok || refusal.Status != 400 || refusal.Param != "image" {
		t.Errorf("an invalid reference: %v", err)
	}
	for name, bad := range map[string]string{
		"unknown":     registry + "/acme/unknown:1",
		"unreachable": "127.0.0.1:1/acme/real:1",
		"digest":      repository + "@sha256:" + strings.Repeat("0", 64),
	} {
		imageAgent(t, c, name, bad)
		run := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Agent: name, Prompt: "look"}).ID)
		if run.Status != stint.Failed || run.StatusReason == nil || *run.StatusReason != stint.ReasonSetupFailed || run.Error == nil || len(*run.Error) < 40 || strings.Contains(*run.Error, h.Data) {
			t.Errorf("%s: the run is %s, reason %v, error %v", name, run.Status, run.StatusReason, run.Error)
			continue
		}
		t.Logf("%s: %s", name, *run.Error)
	}
}

// TestWeakerIsolationIsRefused checks that a definition cannot select a weaker isolator
// than that of the server.
func TestWeakerIsolationIsRefused(t *testing.T) {
	t.Parallel()
	h := installation.New(t, "--isolation", "gvisor", "--parked", "1")
	h.Start()
	c := h.Login(t, "acme")
	_, err := c.Agents.Create(t.Context(), json.RawMessage(`{"name":"weak","framework":"shell","sandbox":"namespace"}`))
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Status != 400 || refusal.Param != "sandbox" || !strings.Contains(refusal.Message, "weaker") {
		t.Errorf("a weaker sandbox: %v", err)
	}
	installation.Agent(t, c, "shell", "")
	run := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Prompt: "dmesg | head -3; cat /proc/version"}).ID)
	if out := transcript(t, c, run.ID); run.Status != stint.Completed || !strings.Contains(out, "gvisor") {
		t.Errorf("the run is %s and not in a gVisor kernel: %q, %v", run.Status, out, run.Error)
	}
}

// TestStrongerSandbox checks that a definition can select a stronger isolator than that
// of the server.
func TestStrongerSandbox(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "strong", `,"sandbox":"gvisor"`)
	run := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Agent: "strong", Prompt: "cat /proc/version; dmesg | head -3; echo x >made", ArtifactName: "made"}).ID)
	if out := transcript(t, c, run.ID); run.Status != stint.Completed || !strings.Contains(out, "gvisor") || run.ArtifactVersion == nil {
		t.Errorf("the run is %s: %q, %v", run.Status, out, run.Error)
	}
}

func imageAgent(t *testing.T, c *client.Client, name, image string) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"name": name, "framework": "command", "command": []string{"inspector"}, "image": image})
	installation.Check(t, err)
	_, err = c.Agents.Create(t.Context(), raw)
	installation.Check(t, err)
}

// program compiles a Go program to a statically linked binary and returns the binary.
func program(t *testing.T, source string) []byte {
	t.Helper()
	dir := t.TempDir()
	installation.Check(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "program"))
	installation.Check(t, err)
	return b
}

func transcript(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	var b strings.Builder
	for e, err := range c.Runs.Events(t.Context(), id, 0) {
		installation.Check(t, err)
		if e.Type == stint.EventOutput {
			var o stint.OutputData
			installation.Check(t, json.Unmarshal(e.Data, &o))
			b.WriteString(o.Content)
		}
	}
	return b.String()
}

package service_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// awaitCheckpoint waits until a lost run has a checkpoint, and returns the run.
func awaitCheckpoint(t *testing.T, c *client.Client, id string) *stint.Run {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		r := installation.Ended(t, c, id)
		if r.CheckpointID != nil {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run has no checkpoint; its log:\n%v", installation.Logs(t, c, id, stint.LogSystem))
		}
	}
}

// outputOf returns the concatenated output of a run.
func outputOf(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range installation.Events(t, c, id) {
		if e.Type == stint.EventOutput {
			b.WriteString(installation.Output(t, e).Content)
		}
	}
	return b.String()
}

func isLost(r *stint.Run) bool {
	return r.Status == stint.Failed && r.StatusReason != nil && *r.StatusReason == stint.ReasonWorkerLost
}

// TestFilesAfterKill9 kills the server while a run writes files. It checks that the next
// server stores the files as the run's checkpoint and version, that the next run of the
// session waits for them, and that nothing is left on the disk.
func TestFilesAfterKill9(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"namespace", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			h := installation.New(t, "--isolation", isolation)
			h.Start()
			c := h.Login(t, "acme")
			installation.Agent(t, c, "shell", "")
			// The second run of the session has an overlay, because the workspace is large.
			first := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{
				Prompt: "head -c 3000000 /dev/zero >large; echo one >kept; echo two >gone; mkdir d; echo old >d/f",
			}).ID)
			r := installation.Create(t, c, stint.NewRun{SessionID: first.SessionID, Prompt: `
				rm gone; echo new >d/f; echo more >added; echo memory >~/notes; echo ready; sleep 600`})
			other := installation.Create(t, c, stint.NewRun{Prompt: "echo x >made; " + listing + "; sleep 600", ArtifactName: "out"})
			awaitOutput(t, c, r.ID)
			awaitOutput(t, c, other.ID)
			next := installation.Create(t, c, stint.NewRun{SessionID: first.SessionID, Prompt: "cat ~/notes; ls; cat d/f added"})
			h.Stop(syscall.SIGKILL)
			begin := time.Now()
			h.Start()
			t.Logf("ready after %s", time.Since(begin))
			if n := installation.Ended(t, c, next.ID); n.Status != stint.Completed {
				t.Errorf("the next run is %s: %s", n.Status, installation.Value(n.Error))
			}
			if story := outputOf(t, c, next.ID); !strings.Contains(story, "memory\nadded\nd\nkept\nlarge\nnew\nmore\n") {
				t.Errorf("the next run of the session wrote %q", story)
			}
			lost := awaitCheckpoint(t, c, r.ID)
			if !isLost(lost) {
				t.Errorf("the lost run is %s, %v", lost.Status, lost.StatusReason)
			}
			if o := awaitCheckpoint(t, c, other.ID); !isLost(o) || o.ArtifactVersion == nil {
				t.Errorf("the other lost run is %s, %v, with the version %v", o.Status, o.StatusReason, o.ArtifactVersion)
			} else if diff := cmp.Diff(printed(t, c, o.ID), stored(t, c, *o.ArtifactVersion)); diff != "" {
				t.Errorf("artifact (-agent +version):\n%s", diff)
			}
			resumed := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{CheckpointID: *lost.CheckpointID, Prompt: "cat ~/notes d/f"}).ID)
			if story := outputOf(t, c, resumed.ID); !strings.Contains(story, "memory\nnew\n") {
				t.Errorf("the resumed run wrote %q", story)
			}
			aside := func() []string { left, _ := filepath.Glob(filepath.Join(h.Data, "worker", "aside", "*")); return left } // the pattern is valid
			for deadline := time.Now().Add(time.Minute); len(aside()) > 0; <-time.After(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("left aside: %q", aside())
				}
			}
			if left := h.Leftovers(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestRetryAfterKill9 kills the server during the only run of an agent with retries. It
// checks that the next attempt continues with the files of the first one, and that the
// version is compared with the one that the first attempt started from.
func TestRetryAfterKill9(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", `,"retries":{"max":1}`)
	base := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Prompt: "echo base >base", ArtifactName: "out"}).ID)
	r := installation.Create(t, c, stint.NewRun{ArtifactName: "out", Prompt: `
		if [ -e half ]; then cat ~/notes half; echo done >whole; exit; fi
		echo memory >~/notes; echo begun >half; echo ready; sleep 600`})
	awaitOutput(t, c, r.ID)
	h.Stop(syscall.SIGKILL)
	h.Start()
	end := installation.Ended(t, c, r.ID)
	if end.Status != stint.Completed || len(end.Attempts) != 2 || *end.Attempts[0].StatusReason != stint.ReasonWorkerLost {
		t.Fatalf("the run is %s after the attempts %v", end.Status, end.Attempts)
	}
	if story := outputOf(t, c, r.ID); !strings.HasSuffix(story, "memory\nbegun\n") {
		t.Errorf("the attempts wrote %q", story)
	}
	var names []string
	for _, line := range stored(t, c, *end.ArtifactVersion) {
		names = append(names, line[strings.LastIndex(line, "/")+1:])
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"base", "half", "whole"}, names); diff != "" {
		t.Errorf("artifact (-want +got):\n%s", diff)
	}
	out, err := c.Artifacts.Find(t.Context(), "out")
	installation.Check(t, err)
	version, err := c.Artifacts.Version(t.Context(), out.ID, *end.ArtifactVersion)
	installation.Check(t, err)
	if diff := cmp.Diff(base.ArtifactVersion, version.ParentVersionID); diff != "" {
		t.Errorf("parent of the version (-want +got):\n%s", diff)
	}
}

// TestFilesGoneAfterKill9 checks that a run whose folder was removed after a crash says
// that it has no checkpoint.
func TestFilesGoneAfterKill9(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	r := installation.Create(t, c, stint.NewRun{Prompt: "echo ready; sleep 600"})
	awaitOutput(t, c, r.ID)
	h.Stop(syscall.SIGKILL)
	installation.Check(t, os.RemoveAll(filepath.Join(h.Data, "worker", "work")))
	h.Start()
	if lost := installation.Ended(t, c, r.ID); !isLost(lost) || lost.CheckpointID != nil {
		t.Errorf("the run is %s, %v, %v", lost.Status, lost.StatusReason, lost.CheckpointID)
	}
	warned := false
	for _, e := range installation.Logs(t, c, r.ID, stint.LogSystem) {
		warned = warned || e.Level == "warn" && strings.Contains(e.Message, "were not found on the worker's disk")
	}
	if !warned {
		t.Errorf("no warning in the log: %v", installation.Logs(t, c, r.ID, stint.LogSystem))
	}
}

// TestRecordHasNoSecrets checks that the files which a running run keeps on the disk of the
// worker for a crash contain no secret.
func TestRecordHasNoSecrets(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	const secret = "rosebud-4711-rosebud"
	_, err := c.Agents.Create(t.Context(), json.RawMessage(`{"name":"shell","framework":"shell","environment":{"TOKEN":"${{ secrets.KEY }}"}}`))
	installation.Check(t, err)
	r := installation.Create(t, c, stint.NewRun{Prompt: "echo ready; sleep 600", Secrets: map[string]string{"KEY": secret}})
	awaitOutput(t, c, r.ID)
	records, err := filepath.Glob(filepath.Join(h.Data, "worker", "work", "*", "salvage.json"))
	installation.Check(t, err)
	if len(records) != 1 {
		t.Fatalf("records: %q", records)
	}
	b, err := os.ReadFile(records[0])
	installation.Check(t, err)
	if strings.Contains(string(b), secret) || !strings.Contains(string(b), r.ID) {
		t.Errorf("the record is %s", b)
	}
	_, err = c.Runs.Cancel(t.Context(), r.ID)
	installation.Check(t, err)
}

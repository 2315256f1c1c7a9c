package service_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// TestDockerIsRefused checks that new definitions with the removed Docker isolator are
// refused with an error that names the replacements.
func TestDockerIsRefused(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	_, err := c.Agents.Create(t.Context(), json.RawMessage(`{"name":"boxed","framework":"shell","sandbox":"docker"}`))
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Status != 400 || refusal.Param != "sandbox" || !namesReplacements(refusal.Message) {
		t.Errorf("a new definition: %v", err)
	}
	installation.Agent(t, c, "plain", "")
	plain, err := c.Agents.Find(t.Context(), "plain")
	installation.Check(t, err)
	_, _, err = c.Agents.CreateVersion(t.Context(), plain.ID, json.RawMessage(`{"framework":"shell","sandbox":"docker"}`))
	refusal, ok = errors.AsType[*client.Error](err)
	if !ok || refusal.Status != 400 || refusal.Param != "sandbox" || !namesReplacements(refusal.Message) {
		t.Errorf("a new version: %v", err)
	}
}

// TestStoredDockerDefinitions simulates the data folder of an earlier release that used
// the Docker isolator. Definitions that name this isolator can be read, their runs fail
// with an error that names the replacements, and the server reports the leftover
// folder.
func TestStoredDockerDefinitions(t *testing.T) {
	t.Parallel()
	h := installation.New(t)
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "boxed", `,"sandbox":"namespace"`)
	h.Stop(syscall.SIGTERM)
	if strings.Contains(h.Log(), "Docker") {
		t.Error("the server reports a Docker folder that does not exist")
	}

	db, err := sql.Open("sqlite", filepath.Join(h.Data, "stint.db"))
	installation.Check(t, err)
	changed, err := db.Exec(`update agent_versions set definition = replace(definition, '"namespace"', '"docker"')`)
	installation.Check(t, err)
	installation.Check(t, db.Close())
	if n, err := changed.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d definitions were changed: %v", n, err)
	}
	left := filepath.Join(h.Data, "sandbox", "docker")
	installation.Check(t, os.MkdirAll(filepath.Join(left, "boxes"), 0o700)) // earlier releases created this folder at every start
	h.Start()
	if strings.Contains(h.Log(), "Docker") {
		t.Error("the server reports a Docker folder that was never used")
	}
	h.Stop(syscall.SIGTERM)
	installation.Check(t, os.Mkdir(filepath.Join(left, "boxes", "run_1"), 0o700))

	h.Start()
	if out := h.Log(); strings.Count(out, "the Docker isolation was removed") != 1 || !strings.Contains(out, "folder="+left) || !strings.Contains(out, "label=\"dev.stint.instance=") {
		t.Errorf("the log does not report the folder %s once:\n%s", left, out)
	}
	if _, err := os.Stat(left); err != nil {
		t.Errorf("the folder was not kept: %v", err)
	}
	boxed, err := c.Agents.Find(t.Context(), "boxed")
	installation.Check(t, err)
	v, err := c.Agents.Version(t.Context(), boxed.ID, boxed.CurrentVersionID)
	if err != nil || !strings.Contains(string(v.Definition), `"docker"`) {
		t.Errorf("the stored definition: %v, %v", v, err)
	}
	run := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Agent: "boxed", Prompt: "true"}).ID)
	if run.Status != stint.Failed || run.StatusReason == nil || *run.StatusReason != stint.ReasonSetupFailed || run.Error == nil || !namesReplacements(*run.Error) {
		t.Errorf("the run is %s, reason %v, error %v", run.Status, run.StatusReason, run.Error)
	}
}

func namesReplacements(message string) bool {
	return strings.Contains(message, "'docker' was removed") && strings.Contains(message, "'sandbox: namespace'") && strings.Contains(message, "'sandbox: gvisor'")
}

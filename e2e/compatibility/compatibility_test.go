package compatibility_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// TestDataOfEarlierReleases opens each fixture, compares the responses of the API with
// the recorded responses, and continues to use the data.
func TestDataOfEarlierReleases(t *testing.T) {
	t.Parallel()
	for _, release := range []string{"cd8520c"} {
		for variant, open := range map[string]func(*testing.T, string) *opened{"sqlite": openSQLite, "postgres": openPostgres} {
			t.Run(release+"/"+variant, func(t *testing.T) {
				t.Parallel()
				continueWork(t, open(t, filepath.Join("testdata", release, variant)))
			})
		}
	}
}

func continueWork(t *testing.T, o *opened) {
	t.Helper()
	o.compare(func(exchange) bool { return true })
	o.checkStorage()
	o.usesTokens()
	c := o.client()
	usesStoredSecret(t, c)
	warnsOfUnnamedSecrets(t, o, c)
	usesInputs(t, o, c)
	refusesDocker(t, c)
	continuesSessions(t, c)
	resumesCheckpoints(t, c)
	o.pushesVersion()
	o.stint("gc", "--data", o.Data)
	o.stint("gc", "--data", o.Data, "--grace", "0")
	o.checkStorage()
	o.Stop(os.Interrupt)
	o.checkStorage() // fsck also works while the server is stopped
	o.Start()
	o.compare(func(e exchange) bool { return lasting.MatchString(e.Path) && !strings.Contains(e.Path, "latest") })
}

// checkStorage runs fsck, which reads all stored objects, and checks that it reports
// many trees and no damage.
func (o *opened) checkStorage() {
	o.t.Helper()
	out := o.stint("fsck", "--data", o.Data, "--json")
	trees := 0
	for line := range strings.Lines(out) {
		var found struct{ Checked struct{ Trees, Damaged int } }
		installation.Check(o.t, json.Unmarshal([]byte(line), &found))
		if trees += found.Checked.Trees; found.Checked.Damaged != 0 {
			o.t.Errorf("fsck reports %s", line)
		}
	}
	if trees < 20 {
		o.t.Errorf("fsck reports few trees: %q", out)
	}
}

// usesTokens checks that the server accepts the tokens of the fixture until they
// expire, and refuses the revoked token.
func (o *opened) usesTokens() {
	o.t.Helper()
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"valid":   {o.recorded.Tokens.Valid, o.statusOf("fixture")},
		"expired": {o.recorded.Tokens.Expired, o.statusOf("expired")},
		"revoked": {o.recorded.Tokens.Revoked, http.StatusUnauthorized},
	} {
		if status, body := o.get("/v1/usage", "application/json", test.token); status != test.want {
			o.t.Errorf("the %s token: status %d, want %d: %s", name, status, test.want, body)
		}
	}
}

// statusOf returns the expected HTTP status of a request with the recorded token of
// this name: 200, or 401 after the token has expired.
func (o *opened) statusOf(name string) int {
	o.t.Helper()
	for _, e := range o.recorded.Exchanges {
		if !strings.HasPrefix(e.Path, "/v1/tokens?") {
			continue
		}
		for _, token := range items(e.JSON) {
			if token["name"] != name {
				continue
			}
			expires, err := time.Parse(time.RFC3339, token["expiresAt"].(string))
			installation.Check(o.t, err)
			if time.Now().After(expires) {
				return http.StatusUnauthorized
			}
			return http.StatusOK
		}
	}
	o.t.Fatalf("no token named %q is recorded", name)
	return 0
}

// completed creates a run, waits until it has ended, and returns the run and its
// output.
func completed(t *testing.T, c *client.Client, n stint.NewRun) (*stint.Run, string) {
	t.Helper()
	r := installation.Ended(t, c, installation.Create(t, c, n).ID)
	if r.Status != stint.Completed {
		t.Errorf("the run of %q is %s: %v\n%s", n.Prompt, r.Status, r.Error, installation.Story(t, c, r.ID))
	}
	var out strings.Builder
	for _, e := range installation.Events(t, c, r.ID) {
		if e.Type == stint.EventOutput {
			out.WriteString(installation.Output(t, e).Content)
		}
	}
	return r, out.String()
}

func checkOutput(t *testing.T, c *client.Client, n stint.NewRun, want string) *stint.Run {
	t.Helper()
	r, out := completed(t, c, n)
	if out != want {
		t.Errorf("the run of %q wrote %q, want %q", n.Prompt, out, want)
	}
	return r
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// usesStoredSecret checks that a run receives the value of a secret that the earlier
// release stored, and that neither the events nor the logs of the run show the value.
func usesStoredSecret(t *testing.T, c *client.Client) {
	t.Helper()
	const value = "the-stored-secret-value"
	r := checkOutput(t, c, stint.NewRun{Agent: "secretive", Prompt: `printf %s "$API_KEY" | sha256sum; echo "it is $API_KEY"`}, sum(value)+"  -\nit is ***\n")
	if story := installation.Story(t, c, r.ID); strings.Contains(story, value) {
		t.Errorf("the run shows the secret:\n%s", story)
	}
}

// warnsOfUnnamedSecrets checks that runs do not receive secrets that their definitions do
// not name, and that the logs of the server and of these runs say so.
func warnsOfUnnamedSecrets(t *testing.T, o *opened, c *client.Client) {
	t.Helper()
	const warning = "receives only the stored secrets"
	if n := strings.Count(o.Log(), warning); n != 1 {
		t.Errorf("the server's log has %d warnings:\n%s", n, o.Log())
	}
	const prompt = `echo "${#OTHER}${#API_KEY}"`
	warned := func(want string) []string {
		t.Helper()
		var entries []string
		for _, e := range installation.Logs(t, c, checkOutput(t, c, stint.NewRun{Agent: "secretive", Prompt: prompt}, want).ID, stint.LogSystem) {
			if e.Level == "warn" {
				entries = append(entries, e.Message)
			}
		}
		return entries
	}
	if entries := warned("023\n"); len(entries) != 1 || !strings.Contains(entries[0], "OTHER") || strings.Contains(entries[0], "API_KEY") {
		t.Errorf("the run's warnings are %q", entries)
	}
	if out := o.stint("secret", "check"); !strings.Contains(out, "secrets: {OTHER: {}}") {
		t.Errorf("stint secret check printed %q", out)
	}
	a, err := c.Agents.Find(t.Context(), "secretive")
	installation.Check(t, err)
	_, _, err = c.Agents.CreateVersion(t.Context(), a.ID, []byte(`{"framework":"shell","environment":{"API_KEY":"${{ secrets.API_KEY }}"},"secrets":{"OTHER":{}}}`))
	installation.Check(t, err)
	if entries := warned("2423\n"); len(entries) != 0 {
		t.Errorf("after a push, the run's warnings are %q", entries)
	}
}

// usesInputs checks the content of mounted volumes: a file of several chunks, a sparse
// file, a file with an odd name, a link, and a program. It also checks variables and a
// secret of the request.
func usesInputs(t *testing.T, o *opened, c *client.Client) {
	t.Helper()
	texts, err := c.Volumes.Find(t.Context(), "texts")
	installation.Check(t, err)
	var want string
	for _, name := range []string{"large.txt", "sparse"} {
		want += o.recordedSum("/v1/volumes/"+texts.ID+"/versions/"+installation.Value(texts.CurrentVersionID)+"/files/"+name) + "  -\n"
	}
	n := stint.NewRun{
		Agent:     "keeper",
		Prompt:    `sha256sum </data/large.txt; sha256sum </data/sparse; cat /pinned/-dash /data/link; /data/bin/run.sh; echo "$GREETING $REQUEST_KEY $FIXED"`,
		Variables: map[string]string{"GREETING": "hello"},
		Secrets:   map[string]string{"REQUEST_KEY": "a-secret-of-today"},
	}
	checkOutput(t, c, n, want+"dash\nsome notes\nmore notes\nstill more\nfrom the script\nhello *** a fixed value\n")
}

func (o *opened) recordedSum(path string) string {
	o.t.Helper()
	for _, e := range o.recorded.Exchanges {
		if e.Path == path && e.SHA256 != "" {
			return e.SHA256
		}
	}
	o.t.Fatalf("there is no recorded exchange for %s", path)
	return ""
}

// refusesDocker checks that a definition with the removed isolator docker can be read,
// that its runs fail, and that runs of another version of the agent complete.
func refusesDocker(t *testing.T, c *client.Client) {
	t.Helper()
	agent, err := c.Agents.Find(t.Context(), "boxed")
	installation.Check(t, err)
	version, err := c.Agents.Version(t.Context(), agent.ID, "latest")
	installation.Check(t, err)
	if b, err := json.Marshal(version.Definition); err != nil || !strings.Contains(string(b), `"sandbox":"docker"`) {
		t.Errorf("the definition is %s, %v", b, err)
	}
	r := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Agent: "boxed", Prompt: "true"}).ID)
	if r.Status != stint.Failed || installation.Value(r.StatusReason) != "setup_failed" {
		t.Errorf("the run is %s: %v", r.Status, r.Error)
	}
	checkOutput(t, c, stint.NewRun{Agent: "boxed", AgentVersion: "1", Prompt: "echo outside"}, "outside\n")
}

// find returns the newest run with a prompt that begins with the given text.
func find(t *testing.T, c *client.Client, prompt string) *stint.Run {
	t.Helper()
	for summary, err := range c.Runs.List(t.Context(), client.RunFilter{}) {
		installation.Check(t, err)
		if strings.HasPrefix(summary.Prompt, prompt) {
			r, err := c.Runs.Get(t.Context(), summary.ID)
			installation.Check(t, err)
			return r
		}
	}
	t.Fatalf("there is no run with the prompt %q", prompt)
	return nil
}

// continuesSessions checks that new runs continue the home folder or the conversation
// of an earlier session. Their workspace contains the session's newest version of the
// artifact, because the current version is a fork of an older one.
func continuesSessions(t *testing.T, c *client.Client) {
	t.Helper()
	shell := find(t, c, "echo to stdout;")
	prompt := `echo 4 >>$HOME/state; cat $HOME/state made.txt; ls; echo three >>made.txt`
	r := checkOutput(t, c, stint.NewRun{SessionID: shell.SessionID, Prompt: prompt}, "1\n2\n3\n4\none\ntwo\nmade.txt\nnumbers.txt\nsub\n")
	if installation.Value(r.ArtifactVersion) == "" || r.SessionID != shell.SessionID {
		t.Errorf("the run belongs to %s and wrote %q", r.SessionID, installation.Value(r.ArtifactVersion))
	}
	if moved := r.HeadMovedFrom; moved == nil || !strings.HasPrefix(moved.VersionID, "v5_") || installation.Value(moved.SessionID) == shell.SessionID {
		t.Errorf("the current version moved from %v", moved)
	}
	checkOutput(t, c, stint.NewRun{SessionID: shell.SessionID, Prompt: "cat made.txt"}, "one\ntwo\nthree\n")
	talk := find(t, c, "write notes.md:")
	if _, out := completed(t, c, stint.NewRun{SessionID: talk.SessionID, Prompt: "run: cat notes.md"}); !strings.Contains(out, "written by the assistant") {
		t.Errorf("the assistant wrote %q", out)
	}
}

func resumesCheckpoints(t *testing.T, c *client.Client) {
	t.Helper()
	first := find(t, c, "echo to stdout;")
	r := checkOutput(t, c, stint.NewRun{CheckpointID: installation.Value(first.CheckpointID), Prompt: "cat $HOME/state made.txt"}, "1\none\n")
	if r.SessionID == first.SessionID {
		t.Error("the resumed run belongs to the session of the checkpoint")
	}
	cancelled := find(t, c, "echo kept >kept.txt;")
	checkOutput(t, c, stint.NewRun{CheckpointID: installation.Value(cancelled.CheckpointID), Prompt: "cat kept.txt"}, "kept\n")
}

// pushesVersion adds a file to a volume of the earlier release and checks the new
// version.
func (o *opened) pushesVersion() {
	o.t.Helper()
	dir := filepath.Join(o.t.TempDir(), "texts")
	o.stint("volume", "pull", "texts", dir)
	installation.Check(o.t, os.WriteFile(filepath.Join(dir, "added.txt"), []byte("added\n"), 0o600))
	o.stint("volume", "push", "texts", dir)
	if got := o.stint("volume", "cat", "texts@4", "added.txt"); got != "added\n" {
		o.t.Errorf("the added file reads %q", got)
	}
	if got := o.stint("volume", "cat", "texts@4", "notes.txt"); got != "some notes\nmore notes\nstill more\n" {
		o.t.Errorf("the notes read %q", got)
	}
}

package hostile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/e2e/installation"
)

// tenant is an organisation and the client of its user.
type tenant struct {
	*testing.T
	host   *host
	client *client.Client
}

// agent creates a shell agent. more is empty, or a comma followed by further JSON
// members of the definition.
func (w *tenant) agent(name, more string) {
	w.Helper()
	installation.Agent(w, w.client, name, more)
}

func (w *tenant) create(n stint.NewRun) *stint.Run {
	w.Helper()
	return installation.Create(w, w.client, n)
}

// ended waits until a run has ended, and returns the run.
func (w *tenant) ended(id string) *stint.Run {
	w.Helper()
	return installation.Ended(w, w.client, id)
}

// run creates a run, waits until it has ended, and returns it. It ends the test if the
// run did not complete.
func (w *tenant) run(n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if r.Status != stint.Completed {
		w.Fatalf("%s ended %s: %s; its output is %q", r.ID, r.Status, installation.Value(r.Error), w.output(r.ID))
	}
	return r
}

// runOutput runs a script, waits until the run has completed, and returns its standard
// output.
func (w *tenant) runOutput(script string) string {
	w.Helper()
	return w.output(w.run(stint.NewRun{Prompt: script}).ID)
}

// fails creates a run, waits until it has ended, and returns it. It fails the test if
// the run has another status reason.
func (w *tenant) fails(reason stint.Reason, n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if installation.Value(r.StatusReason) != reason {
		w.Errorf("%s ended %s, %s, not %s: %s; its output is %q", r.ID, r.Status, installation.Value(r.StatusReason), reason, installation.Value(r.Error), installation.Tail(w.output(r.ID), 500))
	}
	return r
}

// journal returns all events of a run so far.
func (w *tenant) journal(id string) []stint.Event {
	w.Helper()
	return installation.Events(w, w.client, id)
}

// output returns the standard output of a run so far.
func (w *tenant) output(id string) string {
	w.Helper()
	var out strings.Builder
	for _, e := range w.journal(id) {
		if e.Type != stint.EventOutput {
			continue
		}
		if o := installation.Output(w, e); o.Stream == "stdout" {
			out.WriteString(o.Content)
		}
	}
	return out.String()
}

func (w *tenant) logs(id string, kind stint.LogType) []stint.LogEntry {
	w.Helper()
	return installation.Logs(w, w.client, id, kind)
}

// allData returns everything that the API returns about a run, except the prompt.
func (w *tenant) allData(id string) string {
	w.Helper()
	r, err := w.client.Runs.Get(w.Context(), id)
	installation.Check(w, err)
	r.Prompt = ""
	m, err := w.client.Runs.Metrics(w.Context(), id)
	installation.Check(w, err)
	var all bytes.Buffer
	e := json.NewEncoder(&all)
	e.SetEscapeHTML(false)
	for _, part := range []any{r, m, w.logs(id, "")} {
		installation.Check(w, e.Encode(part))
	}
	for _, event := range w.journal(id) {
		all.Write(event.Data)
		all.WriteByte('\n')
	}
	return all.String()
}

// withOther executes an attack during a run of another organisation, and checks that
// the attack does not affect this run.
func (w *tenant) withOther(attack func()) {
	w.Helper()
	other := w.host.tenant(w.T)
	before := other.create(stint.NewRun{Prompt: `for i in $(seq 1 20); do echo "line $i"; date >> file; sleep 0.1; done`, ArtifactName: "steady"})
	attack()
	r := other.ended(before.ID)
	if r.Status != stint.Completed || strings.Count(other.output(r.ID), "line ") != 20 {
		w.Errorf("the run of another organisation ended %s, %s: %s; its output is %q", r.Status, installation.Value(r.StatusReason), installation.Value(r.Error), other.output(r.ID))
	}
	other.checkNormalRun()
}

// checkNormalRun checks that a simple run completes with the expected output.
func (w *tenant) checkNormalRun() {
	w.Helper()
	want := "python\nfiles 3\n"
	if diff := cmp.Diff(want, w.runOutput("python3 -c 'print(\"python\")'; mkdir d; echo x > d/a; echo files $(find . | wc -l)")); diff != "" {
		w.Errorf("a normal run (-want +got):\n%s", diff)
	}
}

// find returns the paths of the files in the data folder that contain the text.
func (h *host) find(text string) (places []string) {
	_ = filepath.WalkDir(h.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // the file may have been removed during the walk
		}
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			places = append(places, path)
		}
		return nil
	})
	return places
}

// lines returns the lines of text that begin with word.
func lines(text, word string) []string {
	all := strings.Split(text, "\n")
	return slices.DeleteFunc(all, func(l string) bool { return !strings.HasPrefix(l, word) })
}

// python returns a shell script that runs a Python program.
func python(program string) string {
	return "cat > /tmp/program.py <<'END-OF-PROGRAM'\n" + program + "\nEND-OF-PROGRAM\nexec python3 /tmp/program.py\n"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// mark returns a word that identifies the test: "mark" and the lower-case letters of
// its name.
func mark(w *tenant) string {
	return "mark" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, w.Name())
}

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

// tenant is an organisation and its client.
type tenant struct {
	*testing.T
	host   *host
	client *client.Client
}

// agent creates a shell agent. more contains further members of its definition.
func (w *tenant) agent(name, more string) {
	w.Helper()
	installation.Agent(w, w.client, name, more)
}

func (w *tenant) create(n stint.NewRun) *stint.Run {
	w.Helper()
	return installation.Create(w, w.client, n)
}

// ended waits until a run has ended.
func (w *tenant) ended(id string) *stint.Run {
	w.Helper()
	return installation.Ended(w, w.client, id)
}

// run creates a run and waits until it has completed.
func (w *tenant) run(n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if r.Status != stint.Completed {
		w.Fatalf("%s ended %s: %s; its output is %q", r.ID, r.Status, installation.Value(r.Error), w.output(r.ID))
	}
	return r
}

// runOutput creates a run, waits until it has completed, and returns its output.
func (w *tenant) runOutput(script string) string {
	w.Helper()
	return w.output(w.run(stint.NewRun{Prompt: script}).ID)
}

// fails creates a run and waits until it has failed for this reason.
func (w *tenant) fails(reason stint.Reason, n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if installation.Value(r.StatusReason) != reason {
		w.Errorf("%s ended %s, %s, not %s: %s; its output is %q", r.ID, r.Status, installation.Value(r.StatusReason), reason, installation.Value(r.Error), installation.Tail(w.output(r.ID), 500))
	}
	return r
}

// journal returns all events of a run.
func (w *tenant) journal(id string) []stint.Event {
	w.Helper()
	return installation.Events(w, w.client, id)
}

// output returns the standard output of a run.
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

// allData returns all data of the API about a run except its prompt.
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

// withOther runs an attack during a run of another organisation, which must not be
// affected.
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

// checkNormalRun checks that a normal run completes.
func (w *tenant) checkNormalRun() {
	w.Helper()
	want := "python\nfiles 3\n"
	if diff := cmp.Diff(want, w.runOutput("python3 -c 'print(\"python\")'; mkdir d; echo x > d/a; echo files $(find . | wc -l)")); diff != "" {
		w.Errorf("a normal run (-want +got):\n%s", diff)
	}
}

// find returns the paths of the files below the data folder that contain the text.
func (h *host) find(text string) (places []string) {
	_ = filepath.WalkDir(h.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it may have been removed
		}
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			places = append(places, path)
		}
		return nil
	})
	return places
}

// lines returns the lines of a text that start with a word.
func lines(text, word string) []string {
	all := strings.Split(text, "\n")
	return slices.DeleteFunc(all, func(l string) bool { return !strings.HasPrefix(l, word) })
}

// python returns a shell script that runs a Python program.
func python(program string) string {
	return "cat > /tmp/program.py <<'END-OF-PROGRAM'\n" + program + "\nEND-OF-PROGRAM\nexec python3 /tmp/program.py\n"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// mark returns a word that is unique among the tests.
func mark(w *tenant) string {
	return "mark" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, w.Name())
}

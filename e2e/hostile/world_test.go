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

// world is an organisation and its owner.
type world struct {
	*testing.T
	host   *host
	client *client.Client
}

// agent pushes a shell agent; more are further members of its definition.
func (w *world) agent(name, more string) {
	w.Helper()
	installation.Agent(w, w.client, name, more)
}

func (w *world) create(n stint.NewRun) *stint.Run {
	w.Helper()
	return installation.Create(w, w.client, n)
}

// ended waits for a run's end.
func (w *world) ended(id string) *stint.Run {
	w.Helper()
	return installation.Ended(w, w.client, id)
}

// run works a run to its end, which must be a completion.
func (w *world) run(n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if r.Status != stint.Completed {
		w.Fatalf("%s ended %s: %s; it wrote %q", r.ID, r.Status, installation.Value(r.Error), w.output(r.ID))
	}
	return r
}

// says works a run to its completion and gives what it wrote.
func (w *world) says(script string) string {
	w.Helper()
	return w.output(w.run(stint.NewRun{Prompt: script}).ID)
}

// fails works a run to its end, which must be a failure for this reason.
func (w *world) fails(reason stint.Reason, n stint.NewRun) *stint.Run {
	w.Helper()
	r := w.ended(w.create(n).ID)
	if installation.Value(r.StatusReason) != reason {
		w.Errorf("%s ended %s, %s, not %s: %s; it wrote %q", r.ID, r.Status, installation.Value(r.StatusReason), reason, installation.Value(r.Error), installation.Tail(w.output(r.ID), 500))
	}
	return r
}

// journal gives all events of a run.
func (w *world) journal(id string) []stint.Event {
	w.Helper()
	return installation.Events(w, w.client, id)
}

// output is what a run wrote on its standard output.
func (w *world) output(id string) string {
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

func (w *world) logs(id string, kind stint.LogType) []stint.LogEntry {
	w.Helper()
	return installation.Logs(w, w.client, id, kind)
}

// everything is all that the API tells of a run but its prompt.
func (w *world) everything(id string) string {
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

// beside runs an attack while another organisation works next to it, which must
// not notice.
func (w *world) beside(attack func()) {
	w.Helper()
	other := w.host.world(w.T)
	before := other.create(stint.NewRun{Prompt: `for i in $(seq 1 20); do echo "line $i"; date >> file; sleep 0.1; done`, ArtifactName: "steady"})
	attack()
	r := other.ended(before.ID)
	if r.Status != stint.Completed || strings.Count(other.output(r.ID), "line ") != 20 {
		w.Errorf("a bystander ended %s, %s: %s; it wrote %q", r.Status, installation.Value(r.StatusReason), installation.Value(r.Error), other.output(r.ID))
	}
	other.honest()
}

// honest does what agents do.
func (w *world) honest() {
	w.Helper()
	want := "python\nfiles 3\n"
	if diff := cmp.Diff(want, w.says("python3 -c 'print(\"python\")'; mkdir d; echo x > d/a; echo files $(find . | wc -l)")); diff != "" {
		w.Errorf("an honest run (-want +got):\n%s", diff)
	}
}

// find looks for text in the files below the data folder.
func (h *host) find(text string) (places []string) {
	_ = filepath.WalkDir(h.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it has gone meanwhile
		}
		if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(text)) {
			places = append(places, path)
		}
		return nil
	})
	return places
}

// lines that a script wrote and that begin with a word.
func lines(text, word string) []string {
	all := strings.Split(text, "\n")
	return slices.DeleteFunc(all, func(l string) bool { return !strings.HasPrefix(l, word) })
}

// python is a shell script that runs a program.
func python(program string) string {
	return "cat > /tmp/program.py <<'END-OF-PROGRAM'\n" + program + "\nEND-OF-PROGRAM\nexec python3 /tmp/program.py\n"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// mark is a word that no other test has.
func mark(w *world) string {
	return "mark" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, w.Name())
}

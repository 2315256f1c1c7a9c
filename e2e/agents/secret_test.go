package agents_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// search looks for keys wherever the sandbox has files, environments and
// command lines, and keeps what it finds in a file, which nothing masks. The
// pattern has the form of the keys but is none.
const search = `{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find /home /run/stint /tmp -type f -size -9M -exec cat {} +; } 2>/dev/null > seen.txt; ` +
	`grep -aoE 'sk-live-[0-9a-f]+' seen.txt | sort -u > keys.txt; tr '\0' '\n' < seen.txt | grep -ac '^[A-Z_]*=' > count.txt; cat keys.txt`

// conceals: the model gets the key, and nobody else ever has it.
func conceals(w *world) {
	w.agent("prober", object{"environment": object{"COPIED": "${{ secrets.MODEL_KEY }}"}})
	r := w.run(stint.NewRun{Agent: "prober", ArtifactName: "found", Prompt: "[[run: " + search + "]] [[run: env]]"})
	w.made(r, "keys.txt", "")
	if n := strings.TrimSpace(w.file(r, "count.txt")); n == "0" || n == "" {
		w.Errorf("the sandbox showed %q variables", n)
	}
	for _, call := range w.model.Requests() {
		if call.Key != modelKey {
			w.Errorf("the model got the key %q", call.Key)
		}
	}
	w.nowhere(r, modelKey)
	if strings.Contains(w.transcript(r.ID), "***") {
		w.Errorf("something had to be masked; %s", w.story(r.ID))
	}
}

// nowhere demands that a value stands in nothing that is told of a run, nor in
// its files.
func (w *world) nowhere(r *stint.Run, secret string) {
	w.Helper()
	told, err := json.Marshal([]any{r, w.events(r.ID), w.logs(r.ID, "")})
	installation.Check(w, err)
	if bytes.Contains(told, []byte(secret)) {
		w.Errorf("the secret stands in what is told of the run; %s", w.story(r.ID))
	}
	if strings.Contains(w.file(r, "seen.txt"), secret) {
		w.Errorf("the sandbox holds the secret; %s", w.story(r.ID))
	}
}

// file reads a file of the version that a run left.
func (w *world) file(r *stint.Run, path string) string {
	w.Helper()
	if r.ArtifactVersion == nil {
		w.Fatalf("%s left no version", r.ID)
	}
	t, err := w.client.Artifacts.Find(w.Context(), *r.ArtifactName)
	installation.Check(w, err)
	f, err := w.client.Artifacts.ReadFile(w.Context(), t.ID, *r.ArtifactVersion, path)
	installation.Check(w, err)
	defer f.Close()
	content, err := io.ReadAll(f)
	installation.Check(w, err)
	return string(content)
}

// made demands a file in the version that a run left.
func (w *world) made(r *stint.Run, path, want string) {
	w.Helper()
	if got := w.file(r, path); got != want {
		w.Errorf("%s is %q, want %q", path, installation.Tail(got, 1000), want)
	}
}

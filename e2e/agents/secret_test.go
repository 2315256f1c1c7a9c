package agents_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// search is a script that looks for keys in the files, environments, and command lines
// of the sandbox. It writes the keys to a file, because output is masked and files are
// not. The pattern matches keys but not itself.
const search = `{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find /home /run/stint /tmp -type f -size -9M -exec cat {} +; } 2>/dev/null > seen.txt; ` +
	`grep -aoE 'sk-live-[0-9a-f]+' seen.txt | sort -u > keys.txt; tr '\0' '\n' < seen.txt | grep -ac '^[A-Z_]*=' > count.txt; cat keys.txt`

// secretKey checks that the model receives the key, and that the sandbox and the data
// of the API do not contain it.
func secretKey(w *tenant) {
	w.agent("prober", object{"environment": object{"COPIED": "${{ secrets.MODEL_KEY }}"}})
	r := w.run(stint.NewRun{Agent: "prober", ArtifactName: "found", Prompt: "[[run: " + search + "]] [[run: env]]"})
	w.checkFile(r, "keys.txt", "")
	if n := strings.TrimSpace(w.file(r, "count.txt")); n == "0" || n == "" {
		w.Errorf("the sandbox has %q variables", n)
	}
	for _, call := range w.model.Requests() {
		if call.Key != modelKey {
			w.Errorf("the model received the key %q", call.Key)
		}
	}
	w.checkAbsent(r, modelKey)
	if strings.Contains(w.transcript(r.ID), "***") {
		w.Errorf("the output was masked; %s", w.story(r.ID))
	}
}

// checkAbsent checks that a secret is neither in the data of the API about a run, nor
// in the data that the script search collected in its sandbox.
func (w *tenant) checkAbsent(r *stint.Run, secret string) {
	w.Helper()
	data, err := json.Marshal([]any{r, w.events(r.ID), w.logs(r.ID, "")})
	installation.Check(w, err)
	if bytes.Contains(data, []byte(secret)) {
		w.Errorf("the API's data about the run contain the secret; %s", w.story(r.ID))
	}
	if strings.Contains(w.file(r, "seen.txt"), secret) {
		w.Errorf("the sandbox contains the secret; %s", w.story(r.ID))
	}
}

// file returns the content of a file in the version that a run created.
func (w *tenant) file(r *stint.Run, path string) string {
	w.Helper()
	if r.ArtifactVersion == nil {
		w.Fatalf("%s did not create a version", r.ID)
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

// checkFile checks the content of a file in the version that a run created.
func (w *tenant) checkFile(r *stint.Run, path, want string) {
	w.Helper()
	if got := w.file(r, path); got != want {
		w.Errorf("%s is %q, want %q", path, installation.Tail(got, 1000), want)
	}
}

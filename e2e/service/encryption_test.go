package service_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// TestHomeIsEncryptedAtRest checks which files of an agent are encrypted at rest by
// default: the data folder contains the bytes of a file in the workspace, and does not
// contain the bytes of a file in the home folder.
func TestHomeIsEncryptedAtRest(t *testing.T) {
	t.Parallel()
	h := installation.New(t, "--gc-every", "0")
	h.Start()
	c := h.Login(t, "acme")
	installation.Agent(t, c, "shell", "")
	const script = `
		head -c 90000 /dev/urandom >$HOME/notes; head -c 90000 /dev/urandom >open
		for f in $HOME/notes open; do tail -c +40000 $f | head -c 48 | base64 -w0; echo; done`
	first := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{Agent: "shell", Prompt: script, ArtifactName: "out"}).ID)
	lines := strings.Fields(output(t, c, first.ID))
	if first.Status != stint.Completed || len(lines) != 2 {
		t.Fatalf("the run is %s and wrote %q", first.Status, lines)
	}
	for i, want := range []int{0, 1} {
		mark, err := base64.StdEncoding.DecodeString(lines[i])
		installation.Check(t, err)
		// The folders of the sandbox, which also contain the bytes, are removed after the
		// end of the run.
		got := countContaining(t, h.Data, mark)
		for deadline := time.Now().Add(time.Minute); got != want && time.Now().Before(deadline); got = countContaining(t, h.Data, mark) {
			<-time.After(50 * time.Millisecond)
		}
		if got != want {
			t.Errorf("%d files contain a part of %s, want %d", got, []string{"the home folder", "the workspace"}[i], want)
		}
	}
	// The second run copies the file in the home folder to the workspace, so that the
	// same bytes are stored both encrypted and unencrypted.
	second := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{SessionID: first.SessionID, Prompt: "cp $HOME/notes open; sha256sum <$HOME/notes"}).ID)
	h.Stop(os.Interrupt)
	checkStorage(t, h)
	h.Start()
	third := installation.Ended(t, c, installation.Create(t, c, stint.NewRun{SessionID: first.SessionID, Prompt: "sha256sum <$HOME/notes"}).ID)
	if a, b := output(t, c, second.ID), output(t, c, third.ID); third.Status != stint.Completed || a != b || len(a) < 64 {
		t.Errorf("the session continued with %q after %q; the run is %s", b, a, third.Status)
	}
}

// countContaining returns the number of files below dir that contain piece. It ignores
// files that are removed during the search.
func countContaining(t *testing.T, dir string, piece []byte) (n int) {
	t.Helper()
	installation.Check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		var b []byte
		if err == nil && d.Type().IsRegular() {
			b, err = os.ReadFile(path)
		}
		if bytes.Contains(b, piece) {
			n++
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
	return n
}

package service_test

import (
	"errors"
	"fmt"
	"io/fs"
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

// listing is a script that prints one line for each entry below the working directory:
// the checksum and path of a file, the path of a folder, or the target and path of a link.
const listing = `find . -type f -exec sha256sum {} + | sed 's/  / /'; find . -mindepth 1 -type d -printf 'dir %p\n'; find . -type l -printf 'link %l %p\n'`

// TestSessionKeepsFiles creates, changes, moves, and removes files, folders, and links in
// several runs of one session. It compares the artifact version of each run with the
// listing that the run printed.
func TestSessionKeepsFiles(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"namespace", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			h := installation.New(t, "--isolation", isolation, "--parked", "1")
			h.Start()
			c := h.Login(t, "acme")
			installation.Agent(t, c, "shell", "")
			session := ""
			for i, step := range []string{
				`mkdir d0 d1 d2 d3 d4 d5 d6; for i in $(seq 40); do echo "file $i" >d$((i % 7))/f$i; done; head -c 1500000 /dev/zero >large; ln -s d1/f1 link; mkdir empty`,
				`echo more >>d1/f1; echo end >>large; rm d2/f2; mv d3 moved; rm -r d4; mkdir d4; echo new >d4/new; ln -sf d4/new link; chmod 600 d5/f5`,
				`rm -r moved d6; echo d6 >d6; mkdir moved; echo back >moved/f3; rm link; rmdir empty`,
				`true`,
				`rm -rf ./* && echo only >only`,
			} {
				n := stint.NewRun{Agent: "shell", Prompt: step + "\n" + listing, ArtifactName: "out", SessionID: session}
				r := installation.Ended(t, c, installation.Create(t, c, n).ID)
				if r.Status != stint.Completed {
					t.Fatalf("step %d ended %s: %v", i, r.Status, installation.Value(r.Error))
				}
				session = r.SessionID
				if diff := cmp.Diff(printed(t, c, r.ID), stored(t, c, *r.ArtifactVersion)); diff != "" {
					t.Fatalf("step %d (-agent +version):\n%s", i, diff)
				}
			}
			if left := h.Leftovers(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			if stacked(t, h) == 0 {
				t.Error("no checkout is stacked on the checkout of its parent")
			}
		})
	}
}

// stacked returns the number of the worker's checkouts that contain only the changes of
// a run, on top of the checkout of the previous version.
func stacked(t *testing.T, h *installation.Host) (n int) {
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(h.Data, "worker", "cache", "*.json"))
	installation.Check(t, err)
	for _, path := range notes {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // removed since the glob
			continue
		}
		installation.Check(t, err)
		if strings.Contains(string(b), `"base"`) {
			n++
		}
	}
	return n
}

// printed returns the lines of a run's output, sorted.
func printed(t *testing.T, c *client.Client, run string) []string {
	t.Helper()
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(output(t, c, run)), "\n"))
}

// stored returns the entries of a version of the artifact out as sorted lines in the
// format of listing.
func stored(t *testing.T, c *client.Client, version string) []string {
	t.Helper()
	tree, err := c.Artifacts.Find(t.Context(), "out")
	installation.Check(t, err)
	var lines []string
	for f, err := range c.Artifacts.Files(t.Context(), tree.ID, version) {
		installation.Check(t, err)
		switch f.Kind {
		case "file":
			lines = append(lines, f.SHA256+" ./"+f.Path)
		case "dir":
			lines = append(lines, "dir ./"+f.Path)
		default:
			lines = append(lines, fmt.Sprintf("link %s ./%s", f.Target, f.Path))
		}
	}
	slices.Sort(lines)
	return lines
}

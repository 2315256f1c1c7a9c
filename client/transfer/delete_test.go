package transfer_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/client/transfer"
)

// writeFiles writes files below dir and creates their parent folders. files maps the
// path of each file to its content.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
}

// fileNames returns the sorted relative paths of all entries below dir except folders.
func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	got := shape(t, dir)
	maps.DeleteFunc(got, func(_, text string) bool { return strings.HasPrefix(text, "d") })
	return slices.Sorted(maps.Keys(got))
}

// TestDeleteKeepsIgnored checks that a pull with Delete keeps the entries that local
// ignore files exclude, and that a second pull keeps them, too.
func TestDeleteKeepsIgnored(t *testing.T) {
	t.Parallel()
	m, from, to := newMemory(t), t.TempDir(), t.TempDir()
	writeFiles(t, from, map[string]string{"a": "a"})
	push(t, m, from, transfer.PushOptions{})
	writeFiles(t, to, map[string]string{
		".stintignore": ".env\nnode_modules/\n", ".env": "x", "node_modules/m/x.js": "x",
		"own/.stintignore": "*.log", "own/x.log": "x", "own/y": "y",
	})
	want := []string{".env", ".stintignore", "a", "node_modules/m/x.js", "own/.stintignore", "own/x.log"}
	for round := range 2 {
		plan := pull(t, m, to, transfer.PullOptions{Delete: true, DryRun: true})
		done := pull(t, m, to, transfer.PullOptions{Delete: true})
		equal(t, "what stays", want, fileNames(t, to))
		equal(t, "deleted", int64(1-round), done.Deleted)
		equal(t, "deleted by a dry run", done.Deleted, plan.Deleted)
	}
}

// TestFolderWithIgnoredIsNotReplaced checks that a pull fails if a file or link of the
// version would replace a local folder that contains ignored entries.
func TestFolderWithIgnoredIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, local := range map[string]map[string]string{
		"named at the root":  {".stintignore": ".env", "a/b/.env": "x", "a/c": "x"},
		"named beside it":    {"a/b/.stintignore": ".env", "a/b/.env": "x"},
		"folder and all":     {".stintignore": "a/", "a/c": "x"},
		"in a parent folder": {".stintignore": "b/", "a/b/c": "x"},
	} {
		for _, link := range []bool{false, true} {
			m, from, to := newMemory(t), t.TempDir(), t.TempDir()
			if link {
				must(t, os.Symlink("there", filepath.Join(from, "a")))
			} else {
				writeFiles(t, from, map[string]string{"a": "a"})
			}
			push(t, m, from, transfer.PushOptions{})
			writeFiles(t, to, local)
			_, err := transfer.Pull(t.Context(), m, to, transfer.PullOptions{Delete: true})
			if err == nil || !strings.Contains(err.Error(), ".stintignore") {
				t.Errorf("%s: it ended with %v", name, err)
			}
			for path := range local {
				if _, err := os.Lstat(filepath.Join(to, path)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			// After its files except .stintignore are removed, the folder is replaced, unless
			// an ignore file excludes the folder itself or a folder in it.
			for path := range local {
				if strings.HasPrefix(path, "a/") && filepath.Base(path) != ".stintignore" {
					must(t, os.Remove(filepath.Join(to, path)))
				}
			}
			if name != "folder and all" && name != "in a parent folder" {
				pull(t, m, to, transfer.PullOptions{Delete: true})
			}
		}
	}
}

// TestTemporaryFiles checks that a push skips the temporary files of an interrupted
// pull, and that the next pull removes them from the folders of the version.
func TestTemporaryFiles(t *testing.T) {
	t.Parallel()
	m, from, to := newMemory(t), t.TempDir(), t.TempDir()
	writeFiles(t, from, map[string]string{"a": "a", "deep/b": "b", ".stint-notes.part": "mine"})
	push(t, m, from, transfer.PushOptions{})
	remains := []string{".stint-000000000000000000000000.part", "deep/.stint-0123456789abcdef01234567.part"}
	for _, path := range remains {
		writeFiles(t, from, map[string]string{path: "half"})
		writeFiles(t, to, map[string]string{path: "half"})
	}
	must(t, os.Symlink("a", filepath.Join(from, "deep", ".stint-000000000000000000000000.part")))
	writeFiles(t, to, map[string]string{"own/.stint-0123456789abcdef01234567.part": "not looked at", "deep/.stint-mine.part": "mine"})
	if done := push(t, m, from, transfer.PushOptions{}); done.All.Files != 3 {
		t.Errorf("the remains were pushed: %+v", done)
	}
	pull(t, m, to, transfer.PullOptions{DryRun: true})
	equal(t, "after a dry run", 4, len(fileNames(t, to)))
	done := pull(t, m, to, transfer.PullOptions{})
	want := []string{".stint-notes.part", "a", "deep/.stint-mine.part", "deep/b", "own/.stint-0123456789abcdef01234567.part"}
	equal(t, "after a pull", want, fileNames(t, to))
	equal(t, "deleted", int64(0), done.Deleted)
}

package gitpatch_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/gitpatch"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

// folder contains files by their path.
type folder map[string]gitpatch.File

func file(mode, content string) gitpatch.File {
	return gitpatch.File{Mode: mode, Content: []byte(content)}
}

// git runs git in a folder without the settings of the user.
func git(t rapid.TB, dir string, in []byte, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Stdin = dir, bytes.NewReader(in)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v: %s\n%s", strings.Join(args, " "), err, out, in)
	}
}

func check(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f folder) write(t rapid.TB, dir string) {
	t.Helper()
	for path, x := range f {
		at := filepath.Join(dir, path)
		check(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch x.Mode {
		case gitpatch.ModeLink:
			check(t, os.Symlink(string(x.Content), at))
		case gitpatch.ModeExecutable:
			check(t, os.WriteFile(at, x.Content, 0o755))
		default:
			check(t, os.WriteFile(at, x.Content, 0o644))
		}
	}
}

func read(t rapid.TB, dir string) folder {
	t.Helper()
	f := folder{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() != ".git" {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			f[name] = file(gitpatch.ModeLink, target)
			return err
		}
		content, err := os.ReadFile(path)
		mode := gitpatch.ModeFile
		if info, err := d.Info(); err == nil && info.Mode()&0o100 != 0 {
			mode = gitpatch.ModeExecutable
		}
		f[name] = file(mode, string(content))
		return err
	}))
	return f
}

// changes returns a patch between two folders. renamed maps new to old paths.
func changes(t rapid.TB, old, new folder, renamed map[string]string) []byte {
	t.Helper()
	at := func(f folder, path string) *gitpatch.File {
		x, ok := f[path]
		if !ok {
			return nil
		}
		x.Path = path
		return &x
	}
	paths := slices.Collect(maps.Keys(old))
	for path := range new {
		if _, ok := old[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var out bytes.Buffer
	for _, path := range paths {
		from := path
		if r, ok := renamed[path]; ok {
			from = r
		} else if slices.Contains(slices.Collect(maps.Values(renamed)), path) {
			continue
		}
		check(t, gitpatch.Write(&out, at(old, from), at(new, path)))
	}
	return out.Bytes()
}

// apply checks that git apply turns old into new, and back.
func apply(t rapid.TB, dir string, old, new folder, renamed map[string]string) {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	git(t, dir, nil, "init", "-q")
	old.write(t, dir)
	patch := changes(t, old, new, renamed)
	if len(patch) == 0 {
		return
	}
	git(t, dir, patch, "apply", "-")
	if diff := cmp.Diff(new, read(t, dir)); diff != "" {
		t.Fatalf("after git apply (-want +got):\n%s\n%s", diff, patch)
	}
	git(t, dir, patch, "apply", "-R", "-")
	if diff := cmp.Diff(old, read(t, dir)); diff != "" {
		t.Fatalf("after git apply -R (-want +got):\n%s\n%s", diff, patch)
	}
}

func TestGitApply(t *testing.T) {
	t.Parallel()
	requirement.Programs(t, "git")
	const f, x, l = gitpatch.ModeFile, gitpatch.ModeExecutable, gitpatch.ModeLink
	long := strings.Repeat("line\n", 100)
	for name, c := range map[string]struct {
		old, new folder
		renamed  map[string]string
	}{
		"changed lines":       {folder{"a": file(f, long)}, folder{"a": file(f, long[:250]+"more\n"+long[250:])}, nil},
		"new and deleted":     {folder{"d/old": file(f, "one\n")}, folder{"e/new": file(x, "two\n")}, nil},
		"empty files":         {folder{"a": file(f, ""), "b": file(f, "x")}, folder{"b": file(f, ""), "c": file(x, "")}, nil},
		"no last line end":    {folder{"a": file(f, "x\ny"), "b": file(f, "x\ny\n"), "c": file(f, "x")}, folder{"a": file(f, "x\ny\n"), "b": file(f, "x\ny"), "c": file(f, "y")}, nil},
		"carriage returns":    {folder{"a": file(f, "x\r\ny\r\n"), "b": file(f, "x\ry")}, folder{"a": file(f, "x\r\nz\r\n"), "b": file(f, "x\rz\r")}, nil},
		"mode":                {folder{"a": file(f, "x\n"), "b": file(x, "x\n")}, folder{"a": file(x, "x\n"), "b": file(f, "y\n")}, nil},
		"link":                {folder{"a": file(l, "b"), "c": file(l, "x")}, folder{"a": file(l, "c d"), "e": file(l, "y")}, nil},
		"link to file":        {folder{"a": file(l, "b"), "b": file(f, "x\n")}, folder{"a": file(x, "x\n"), "b": file(l, "a")}, nil},
		"renamed":             {folder{"a": file(f, long)}, folder{"d/b": file(f, long)}, map[string]string{"d/b": "a"}},
		"renamed with mode":   {folder{"a": file(f, long)}, folder{"b": file(x, long)}, map[string]string{"b": "a"}},
		"renamed binary":      {folder{"a": file(f, "\x00")}, folder{"b": file(f, "\x00")}, map[string]string{"b": "a"}},
		"binary":              {folder{"a": file(f, "\x00\x01"), "b": file(f, "\x00")}, folder{"a": file(f, "\x00\x02"+long), "c": file(f, "\x00\xff")}, nil},
		"text becomes binary": {folder{"a": file(f, "x\n")}, folder{"a": file(f, "x\x00")}, nil},
		"invalid UTF-8":       {folder{"a": file(f, "x\xff\n\xfe\n")}, folder{"a": file(f, "x\xff\n\xfd\n")}, nil},
		"large":               {folder{"a": file(f, strings.Repeat("0123456\n", 1<<18))}, folder{"a": file(f, strings.Repeat("0123457\n", 1<<18))}, nil},
		"unusual names":       {folder{"a b": file(f, "x\n"), "tab\t": file(f, "x\n"), `q"\`: file(f, ""), "é": file(f, "x\n"), "line\nend": file(f, "1\n")}, folder{"a b": file(f, "y\n"), " ": file(f, "y\n"), "\u65e5": file(x, ""), "line\nend": file(x, "1\n"), "\xff": file(f, "z")}, nil},
		"renamed with spaces": {folder{"a b/c ": file(f, long)}, folder{" d": file(f, long)}, map[string]string{" d": "a b/c "}},
		"folder becomes file": {folder{"a/b": file(f, "x\n"), "c": file(f, "x\n")}, folder{"a": file(f, "x\n"), "c/d": file(f, "z\n")}, nil},
		"looks like a patch":  {folder{"a": file(f, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n")}, folder{"a": file(f, "-- x\n+++ b/y\n\\ No newline at end of file\n")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apply(t, filepath.Join(t.TempDir(), "repository"), c.old, c.new, c.renamed)
		})
	}
}

func TestRandomGitApply(t *testing.T) {
	t.Parallel()
	requirement.Programs(t, "git")
	base := t.TempDir()
	n := 0
	files := rapid.Custom(func(t *rapid.T) folder {
		f := folder{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c d", "e/f", "e/g", "h"}), 0, 6, rapid.ID).Draw(t, "names") {
			mode := rapid.SampledFrom([]string{gitpatch.ModeFile, gitpatch.ModeFile, gitpatch.ModeExecutable, gitpatch.ModeLink}).Draw(t, "mode")
			content := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b\n", "c\r\n", "\n", "\t\n", " "}), 0, 20).Draw(t, "content"), "")
			if mode == gitpatch.ModeLink {
				content = "t" + strings.ReplaceAll(content, "\n", "")
			} else if rapid.IntRange(0, 5).Draw(t, "binary") == 0 {
				content += "\x00"
			}
			f[name] = file(mode, content)
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		n++
		apply(t, filepath.Join(base, fmt.Sprint(n)), files.Draw(t, "old"), files.Draw(t, "new"), nil)
	})
}

package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/blob"
	"github.com/stint-dev/stint/internal/files"
)

// changes returns all changes, read in pages of limit changes. Each change is a line such as
// "added PATH" or "renamed PATH from PATH".
func changes(ctx context.Context, t interface{ Fatalf(string, ...any) }, l *files.Library, from, to string, limit int) []string {
	all := []string{}
	for after, more := "", true; more; {
		page, m, err := l.Diff(ctx, org, from, to, after, limit)
		if err != nil || m && len(page) != limit {
			t.Fatalf("a page after %q has %d changes, %v", after, len(page), err)
		}
		for _, c := range page {
			line := c.Change + " " + c.Path
			if c.Change == stint.FileRenamed {
				line += " from " + c.From.Path
			}
			all = append(all, line)
			after = c.Path
		}
		more = m
	}
	return all
}

func TestRenames(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	one, two, three := []byte("one"), []byte("two"), []byte("three")
	from := stored(t, l, "",
		item{name: "kept", body: one}, item{name: "a/x", body: two}, item{name: "a/y", body: two}, item{name: "b/x", body: two},
		item{name: "m", body: three}, item{name: "no-content"}, item{name: "old-link", target: "kept"}, item{name: "same-path", body: []byte("4")})
	to := stored(t, l, from.Digest,
		item{name: "kept", body: one}, item{name: "copy", body: one}, item{name: "c/y", body: two}, item{name: "d/x", body: two}, item{name: "c/z", body: two},
		item{name: "c/zz", body: two}, item{name: "n", body: three, mode: 0o755}, item{name: "no-content-too"}, item{name: "new-link", target: "kept"},
		item{name: "same-path", body: three})
	want := []string{
		"removed a", "removed b", "added c",
		"renamed c/y from a/y", // same name
		"renamed c/z from b/x", // same content, another name
		"added c/zz",           // all removed files with this content are already paired
		"added copy", "added d",
		"renamed d/x from a/x", // same name, the first of two files with it
		"renamed n from m",
		"added new-link", "removed no-content", "added no-content-too", "removed old-link", "changed same-path",
	}
	for _, limit := range []int{1, 2, 3, 100} {
		if diff := cmp.Diff(want, changes(t.Context(), t, l, from.Digest, to.Digest, limit)); diff != "" {
			t.Errorf("in pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	page, _, err := l.Diff(t.Context(), org, from.Digest, to.Digest, "n", 1)
	if err != nil || len(page) != 1 || page[0].Path == "n" {
		t.Errorf("after n comes %v, %v", page, err)
	}
	page, _, err = l.Diff(t.Context(), org, from.Digest, to.Digest, "d/x", 1)
	if err != nil {
		t.Fatal(err)
	}
	if c := page[0]; c.Path != "n" || c.From.Mode != "0644" || c.To.Mode != "0755" || c.From.SHA256 != c.To.SHA256 {
		t.Errorf("the renamed file is %+v -> %+v", c.From, c.To)
	}
}

// TestRenameLimit compares trees that differ in too many files for a search for renames.
func TestRenameLimit(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	tree := func(prefix string, n int) string {
		items := make([]item, n)
		for i := range items {
			items[i] = item{name: fmt.Sprint(prefix, i), body: []byte("same")}
		}
		return stored(t, l, "", items...).Digest
	}
	few, many := tree("a", 3), tree("b", files.MaxRenames+1)
	page, more, err := l.Diff(t.Context(), org, few, many, "", 5)
	if err != nil || !more {
		t.Fatal(more, err)
	}
	for _, c := range page {
		if c.Change == stint.FileRenamed {
			t.Errorf("%s is renamed from %s", c.Path, c.From.Path)
		}
	}
}

// TestDiffSkipsEqualPages damages the pages that two trees share. Diff must not read these
// pages.
func TestDiffSkipsEqualPages(t *testing.T) {
	t.Parallel()
	s := newMemory()
	l := newLibrary(t, s, files.Options{})
	var items []item
	for i := range 8000 {
		items = append(items, item{name: fmt.Sprintf("%04d-%x", i, noise(byte(i), 10))})
	}
	from := stored(t, l, "", items...).Digest
	items[1500].body = []byte("changed")
	items = slices.Delete(items, 1600, 1601)
	to := stored(t, l, from, append(items, item{name: "1400-added", body: []byte("added")})...).Digest
	count := map[files.Page]int{}
	for _, digest := range []string{from, to} {
		pages, err := l.Pages(t.Context(), org, digest)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pages {
			count[p]++
		}
	}
	shared := 0
	for p, n := range count {
		if n == 2 {
			shared++
			clear(s.objects[org+"/packs/"+p.Pack][p.Offset:][:p.Stored])
		}
	}
	if shared < 3 {
		t.Fatalf("the trees share %d pages of %d", shared, len(count))
	}
	want := []string{"added 1400-added", "changed " + items[1500].name, "removed " + fmt.Sprintf("1600-%x", noise(byte(1600%256), 10))}
	for _, limit := range []int{1, 10} {
		if diff := cmp.Diff(want, changes(t.Context(), t, l, from, to, limit)); diff != "" {
			t.Errorf("in pages of %d (-want +got):\n%s", limit, diff)
		}
	}
}

// TestRandomDiff applies the changes between two random trees to the first tree. The result
// must equal the second tree.
func TestRandomDiff(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		trees := make([]map[string]string, 2)
		digests := make([]string, 2)
		for i := range trees {
			trees[i] = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), rapid.SampledFrom([]string{"1", "2", "3", ""}), 0, 6).Draw(rt, "tree")
			var items []item
			for name, body := range trees[i] {
				items = append(items, item{name: name, body: []byte(body)})
			}
			digests[i] = stored(t, l, "", items...).Digest
		}
		state := maps.Clone(trees[0])
		for _, line := range changes(t.Context(), rt, l, digests[0], digests[1], rapid.IntRange(1, 4).Draw(rt, "limit")) {
			words := strings.Fields(line)
			switch words[0] {
			case stint.FileRemoved:
				delete(state, words[1])
			case stint.FileRenamed:
				if trees[0][words[3]] != trees[1][words[1]] {
					rt.Errorf("%s has another content", line)
				}
				delete(state, words[3])
				state[words[1]] = trees[0][words[3]]
			default:
				state[words[1]] = trees[1][words[1]]
			}
		}
		if diff := cmp.Diff(trees[1], state); diff != "" {
			rt.Errorf("the changes lead elsewhere (-want +got):\n%s", diff)
		}
	})
}

func TestListPrefix(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	var items []item
	for i := range 1500 {
		items = append(items, item{name: fmt.Sprintf("d%d/%d", i%3, i)})
	}
	digest := stored(t, l, "", append(items, item{name: "d1/sub/x"}, item{name: "d1-x"}, item{name: "d"}, item{name: "e"})...).Digest
	all, _, err := l.List(t.Context(), org, digest, "", "", 5000)
	if err != nil || len(all) != 1508 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	for _, prefix := range []string{"", "d", "d1", "d1/", "d1/1", "d1/sub", "d1/sub/", "d1-", "e", "f", "d1/sub/x", "d1/sub/x/"} {
		var want, got []string
		for _, e := range all {
			if strings.HasPrefix(e.Path, prefix) {
				want = append(want, e.Path)
			}
		}
		for more, after := true, ""; more; after = got[len(got)-1] {
			page, m, err := l.List(t.Context(), org, digest, prefix, after, 97)
			if err != nil || m && len(page) != 97 {
				t.Fatalf("%q: %d entries, %v", prefix, len(page), err)
			}
			for _, e := range page {
				got = append(got, e.Path)
			}
			if more = m; !more {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", prefix, diff)
		}
	}
}

func TestTextDiff(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	lines := func(n int, changed ...int) []byte {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i)
			for _, c := range changed {
				if c == i {
					b.WriteString("more\n")
				}
			}
		}
		return b.Bytes()
	}
	odd := "o\nd\"d"
	from := stored(t, l, "", item{name: "same", body: []byte("1")}, item{name: "lines", body: lines(30)}, item{name: "gone", body: []byte("a\nb\n")},
		item{name: "bin", body: []byte("a\x00b")}, item{name: "link", target: "old"}, item{name: "d/", mode: 0o755}, item{name: odd, body: []byte("x\n")},
		item{name: "latin", body: []byte("\xe9\r\n")}, item{name: "empty-gone"}, item{name: "large", body: text(1, 1<<20+1)}, item{name: "end", body: []byte("a")})
	to := stored(t, l, from.Digest, item{name: "same", body: []byte("1")}, item{name: "lines", body: lines(30, 2, 20)}, item{name: "new", body: []byte("n\n")},
		item{name: "bin", body: []byte("a\x00c")}, item{name: "link", target: "new"}, item{name: "d/", mode: 0o755}, item{name: odd, body: []byte("y\n")},
		item{name: "latin", body: []byte("\xe8\r\n")}, item{name: "large", body: text(2, 1<<20+1)}, item{name: "end", body: []byte("a\n")})
	for path, want := range map[string]string{
		"same":  "",
		"lines": "--- a/lines\n+++ b/lines\n@@ -1,6 +1,7 @@\n line 0\n line 1\n line 2\n+more\n line 3\n line 4\n line 5\n@@ -19,6 +20,7 @@\n line 18\n line 19\n line 20\n+more\n line 21\n line 22\n line 23\n",
		"gone":  "--- a/gone\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
		"new":   "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n",
		"bin":   "Binary files a/bin and b/bin differ\n",
		"link":  "--- a/link\n+++ b/link\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n",
		odd:     "--- \"a/o\\012d\\\"d\"\n+++ \"b/o\\012d\\\"d\"\n@@ -1 +1 @@\n-x\n+y\n",
		"latin": "--- a/latin\n+++ b/latin\n@@ -1 +1 @@\n-\xe9\r\n+\xe8\r\n",
		"end":   "--- a/end\n+++ b/end\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n",

		"empty-gone": "--- a/empty-gone\n+++ /dev/null\n",
	} {
		got, err := l.TextDiff(t.Context(), org, from.Digest, to.Digest, path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
	}
	for path, want := range map[string]stint.Kind{"none": stint.KindNotFound, "": stint.KindNotFound, "d": stint.KindInvalid, "large": stint.KindInvalid} {
		if _, err := l.TextDiff(t.Context(), org, from.Digest, to.Digest, path); stint.KindOf(err) != want {
			t.Errorf("TextDiff of %q: %v", path, err)
		}
	}
	if _, err := l.TextDiff(t.Context(), org, from.Digest, strings.Repeat("0", 64), "same"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("against no tree: %v", err)
	}
	if got, err := l.TextDiff(t.Context(), org, "", to.Digest, "new"); err != nil || got != "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n" {
		t.Errorf("against the empty tree: %q, %v", got, err)
	}
}

// TestComparisonDoesNotBlockOthers occupies the slot of an organisation for text comparisons.
// Comparisons of other organisations must not wait for this slot.
func TestComparisonDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, newMemory(), files.Options{})
		orgs := []string{org, "org_01jd0000000000000000000001", "org_01jd0000000000000000000002"}
		trees := map[string]string{}
		for _, o := range orgs {
			ref, err := l.CommitArchive(t.Context(), o, "", files.Tar, bytes.NewReader(tarOf(t, item{name: "a", body: []byte("a\n")})))
			if err != nil {
				t.Fatal(err)
			}
			trees[o] = ref.Digest
		}
		ask := func(ctx context.Context, org string) error {
			text, err := l.TextDiff(ctx, org, "", trees[org], "a")
			if err == nil && text == "" {
				t.Error("no difference")
			}
			return err
		}
		var held sync.WaitGroup
		stop := make(chan struct{})
		hold := func(org string) {
			held.Go(func() {
				done := l.OccupyComparison(org)
				<-stop
				done()
			})
			synctest.Wait()
		}
		hold(orgs[0])
		hold(orgs[0])
		before := time.Now()
		if err := ask(t.Context(), orgs[1]); err != nil || time.Since(before) > 0 {
			t.Errorf("another organisation, after %v: %v", time.Since(before), err)
		}
		if err := ask(t.Context(), orgs[0]); stint.KindOf(err) != stint.KindUnavailable {
			t.Errorf("one more of the organisation: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ask(ctx, orgs[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("after a cancellation: %v", err)
		}
		hold(orgs[1])
		if err := ask(t.Context(), orgs[2]); stint.KindOf(err) != stint.KindUnavailable {
			t.Errorf("a third at once: %v", err)
		}
		close(stop)
		held.Wait()
		for _, o := range orgs {
			if err := ask(t.Context(), o); err != nil {
				t.Errorf("after the slot was released: %v", err)
			}
		}
	})
}

// TestPatchAppliesTextDiffs applies text diffs with git apply.
func TestPatchAppliesTextDiffs(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, newMemory(), files.Options{})
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "\n", "\r\n", "-- x\n", "@@\n", "\xff\n", "end"}), 0, 40)
	dir := t.TempDir()
	for i := range 12 {
		old, new := strings.Join(words.Example(2*i), ""), strings.Join(words.Example(2*i+1), "")
		from := stored(t, l, "", item{name: "f", body: []byte(old)}).Digest
		to := stored(t, l, "", item{name: "f", body: []byte(new)}).Digest
		diff, err := l.TextDiff(t.Context(), org, from, to, "f")
		if err != nil {
			t.Fatal(err)
		}
		if diff == "" || old == "" || new == "" {
			continue
		}
		for name, b := range map[string]string{"f": old, "p.diff": diff} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run(t, dir, "git", "apply", "--whitespace=nowarn", "p.diff")
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != new {
			t.Errorf("%q becomes %q by\n%s\nwant %q, %v", old, got, diff, new, err)
		}
	}
}

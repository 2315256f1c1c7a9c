package stint_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
)

// TestLinks checks that the links between the documents lead to a file, and to a heading
// if they have a fragment.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs", "examples"} {
		more, err := filepath.Glob(folder + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(readPage(t, page), -1) {
			path, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if fragment != "" && !slices.Contains(anchors(readPage(t, target)), fragment) {
				t.Errorf("%s links to %s: the page has no such heading", page, m[1])
			}
		}
	}
}

// readPage returns the text of a page without its blocks of code.
func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fence.ReplaceAllString(string(text), "")
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchors returns the fragments of a page's headings, as GitHub forms them.
func anchors(page string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		out = append(out, strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

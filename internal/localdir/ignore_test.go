package localdir_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/localdir"
)

func TestIgnores(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rules string
		name  string
		dir   bool
		want  bool
	}{
		{"", "a", false, false},
		{"*.log", "x.log", false, true},
		{"*.log", "a/b/x.log", false, true},
		{"*.log", "x.logs", false, false},
		{"# *.log\n\n   ", "x.log", false, false},
		{`\#x`, "#x", false, true},
		{`\!x`, "!x", false, true},
		{"/x", "x", false, true},
		{"/x", "a/x", false, false},
		{"a/b", "a/b", false, true},
		{"a/b", "c/a/b", false, false},
		{"build/", "build", true, true},
		{"build/", "a/build", true, true},
		{"build/", "build", false, false},
		{"*.log\n!keep.log", "keep.log", false, false},
		{"!keep.log\n*.log", "keep.log", false, true},
		{"**/x", "a/b/x", false, true},
		{"**/x", "x", false, true},
		{"a/**", "a/b/c", false, true},
		{"a/**", "a", true, false},
		{"a/**/b", "a/b", false, true},
		{"a/**/b", "a/x/y/b", false, true},
		{"a*c", "abbc", false, true},
		{"a/*", "a/b/c", false, false},
		{"a?c", "abc", false, true},
		{"a?c", "a/c", false, false},
		{"[a-c]x", "bx", false, true},
		{"[!a-c]x", "bx", false, false},
		{"[^a-c]x", "dx", false, true},
		{"[]x]y", "]y", false, true},
		{"[[]x", "[x", false, true},
		{"[x", "[x", false, true},
		{`x\ `, "x ", false, true},
		{"x  ", "x", false, true},
		{"x\r", "x", false, true},
		{"a.b+c(d)", "a.b+c(d)", false, true},
		{"a.b", "aXb", false, false},
		{"\ufeffx", "x", false, true},
		{"é?", "éa", false, true},
		{"/", "x", false, false},
		{"[z-a]", "b", false, false},
	}
	for _, tt := range tests {
		var g localdir.Ignore
		err := g.Add(".", []byte(tt.rules))
		if tt.rules == "[z-a]" {
			if err == nil {
				t.Errorf("%q was accepted", tt.rules)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tt.rules, err)
		}
		if got := g.Ignores(tt.name, tt.dir); got != tt.want {
			t.Errorf("%q ignores %s: %v, want %v", tt.rules, tt.name, got, tt.want)
		}
	}
}

func TestNearestFileDecides(t *testing.T) {
	t.Parallel()
	var g localdir.Ignore
	for dir, rules := range map[string]string{".": "*.log\n/only", "a": "!x.log\n/y", "a/b": "*"} {
		if err := g.Add(dir, []byte(rules)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{
		"x.log": true, "a/x.log": false, "a/z.log": true, "a/c/x.log": false, "a/b/x.log": true,
		"only": true, "a/only": false, "a/y": true, "y": false, "a/c/y": false,
	} {
		if got := g.Ignores(name, false); got != want {
			t.Errorf("%s is ignored: %v, want %v", name, got, want)
		}
	}
}

// FuzzIgnore checks that any file is parsed or refused, and that a last line that
// matches everything overrides the lines before it.
func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!x\n/a/**/b/\n[a-", "a/b/x.log")
	f.Fuzz(func(t *testing.T, rules, name string) {
		for last, want := range map[string]bool{"*": true, "!*": false} {
			var g localdir.Ignore
			if err := g.Add(".", []byte(rules+"\n"+last)); err != nil {
				return
			}
			if got := g.Ignores(name, true); got != want {
				t.Errorf("%q before %q: ignored %v, want %v", rules, last, got, want)
			}
		}
	})
}

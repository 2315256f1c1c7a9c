package cli

import "testing"

func TestGitSource(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, url, ref, shown string }{
		"https":           {"https://example.com/a/b@main", "https://example.com/a/b", "main", "https://example.com/a/b"},
		"no ref":          {"https://example.com/a/b", "https://example.com/a/b", "HEAD", "https://example.com/a/b"},
		"credentials":     {"https://u:p@example.com:8443/a?token=t@v1.0", "https://u:p@example.com:8443/a?token=t", "v1.0", "https://example.com:8443/a"},
		"token":           {"https://token@example.com/a", "https://token@example.com/a", "HEAD", "https://example.com/a"},
		"two at signs":    {"https://u@p@example.com/a@main", "https://u@p@example.com/a", "main", "https://example.com/a"},
		"ref with at":     {"https://example.com/a@@scope/b@1.0", "https://example.com/a", "@scope/b@1.0", "https://example.com/a"},
		"host without":    {"git@example.com:a/b.git", "git@example.com:a/b.git", "HEAD", "git@example.com:a/b.git"},
		"host with":       {"git@example.com:a/b.git@feature/x", "git@example.com:a/b.git", "feature/x", "git@example.com:a/b.git"},
		"ssh":             {"ssh://git@example.com:22/a@main", "ssh://git@example.com:22/a", "main", "ssh://example.com:22/a"},
		"folder":          {"../a/b@main", "../a/b", "main", "../a/b"},
		"file":            {"file:///a%40b/c@0123456789012345678901234567890123456789", "file:///a%40b/c", "0123456789012345678901234567890123456789", "file:///a%40b/c"},
		"only a host":     {"https://u:p@example.com", "https://u:p@example.com", "HEAD", "https://example.com"},
		"user in the URL": {"file://u@/a@main", "file://u@/a", "main", "file:///a"},
	}
	for name, tt := range tests {
		s, err := parseGitSource(tt.text)
		if err != nil || s.url != tt.url || s.ref != tt.ref || s.shown() != tt.shown {
			t.Errorf("%s: URL %q, ref %q, shown %q: %v", name, s.url, s.ref, s.shown(), err)
		}
	}
	for _, text := range []string{
		"", "@main", "-c@main", "--upload-pack=x", "a@-x", "a@--upload-pack=x", "a@+main", "a@main~1", "a@main^", "./a@b:c", "a@*", "a@x..y",
		"a@@{1}", "a@b c", "a@b\n", "a\nb@main", "a@", "https://u:p/w@example.com/a", "https://u:%zz@example.com/a@main",
	} {
		if s, err := parseGitSource(text); err == nil {
			t.Errorf("%q is accepted: %q %q", text, s.url, s.ref)
		}
	}
}

// Output of git can contain a URL that the user's configuration changed.
func TestGitOutputHasNoCredentials(t *testing.T) {
	t.Parallel()
	s := gitSource{url: "https://ada:p%40ss@example.com/a?key=hidden", ref: "main"}
	got := s.clean("fatal: https://ada:p%40ss@example.com/a?key=hidden\n'https://token@example.com/b' p@ss p%40ss key=hidden\x1b[1m\n")
	if want := "fatal: https://example.com/a 'https://example.com/b' *** *** *** [1m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

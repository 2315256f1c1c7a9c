package cli

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// gitSource names a commit of a repository.
type gitSource struct {
	url string
	ref string // branch, tag, or commit
}

// parseGitSource splits URL@REF. The '@' before REF is the first one after the host, so
// that REF may contain '@'. Without REF it is "HEAD", the default branch.
func parseGitSource(text string) (gitSource, error) {
	at := pathStart(text)
	location, ref, given := strings.Cut(text[at:], "@")
	s := gitSource{text[:at] + location, ref}
	if !given {
		s.ref = "HEAD"
	}
	switch _, err := url.Parse(s.url); {
	case s.url == "" || strings.HasPrefix(s.url, "-") || strings.ContainsFunc(s.url, unicode.IsControl):
		return s, errors.New("a repository is URL@REF, such as https://github.com/OWNER/REPOSITORY@main")
	case isURL(s.url) && err != nil: // err may contain a password
		return s, errors.New("the URL of the repository is not valid: encode special characters of a user name or password, such as %40 for '@'")
	case !isRef(s.ref):
		return s, fmt.Errorf("'%s' is not a branch, tag, or commit: write the repository as URL@REF, and '@' in the path of URL as %%40", s.ref)
	}
	return s, nil
}

// isLocal reports whether the repository is a folder, given by its path.
func (s gitSource) isLocal() bool { return !isURL(s.url) && pathStart(s.url) == 0 }

func isURL(location string) bool { return strings.Contains(location, "://") }

// pathStart returns the index at which the path of a repository begins, after the host
// of scheme://user@host/path and user@host:path.
func pathStart(text string) int {
	if scheme, rest, found := strings.Cut(text, "://"); found && !strings.ContainsAny(scheme, "/@") {
		host, _, _ := strings.Cut(rest, "/")
		return len(text) - len(rest) + len(host)
	}
	if host, _, found := strings.Cut(text, ":"); found && !strings.Contains(host, "/") {
		return len(host)
	}
	return 0
}

// isRef reports whether ref has the form of a branch, tag, or commit. Options,
// revisions such as main~1, and refspecs do not.
func isRef(ref string) bool {
	return ref != "" && !strings.ContainsAny(ref[:1], "-+") && !strings.Contains(ref, "..") && !strings.Contains(ref, "@{") &&
		!strings.ContainsAny(ref, " ~^:?*[\\") && !strings.ContainsFunc(ref, unicode.IsControl)
}

// userInfo is the user name and password in a URL.
var userInfo = regexp.MustCompile(`://[^/\s'"]*@`)

// shown returns the URL without user name, password, and parameters, which may contain
// credentials.
func (s gitSource) shown() string {
	if !isURL(s.url) {
		return s.url
	}
	location, _, _ := strings.Cut(s.url, "?")
	location, _, _ = strings.Cut(location, "#")
	return userInfo.ReplaceAllString(location, "://")
}

// clean returns the output of git in one line and without credentials.
func (s gitSource) clean(output string) string {
	text := strings.ReplaceAll(strings.TrimSpace(output), s.url, s.shown())
	text = userInfo.ReplaceAllString(text, "://")
	u, err := url.Parse(s.url)
	if err != nil || !isURL(s.url) {
		return plain(text)
	}
	password, _ := u.User.Password()
	_, encoded, _ := strings.Cut(u.User.String(), ":")
	for _, secret := range []string{password, encoded, u.RawQuery, u.Fragment} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return plain(text)
}

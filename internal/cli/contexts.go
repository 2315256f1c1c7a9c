package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/privatefile"
)

// credentials is a login: a server and a token for it.
type credentials struct {
	URL     string `json:"url"`
	Token   string `json:"token"`
	TokenID string `json:"tokenId,omitempty"`
	Org     string `json:"org,omitempty"`
	User    string `json:"user,omitempty"`
}

// contextName returns the default name of the context of a login: the server's host and
// the organisation.
func (l credentials) contextName() string {
	host := l.URL
	if u, err := url.Parse(l.URL); err == nil && u.Host != "" {
		host = u.Host + u.Path
	}
	return strings.TrimRight(host+"/"+l.Org, "/")
}

// contexts contains the user's logins by name. It is stored in the configuration file of
// the command line.
type contexts struct {
	Current string                 `json:"current,omitempty"`
	Logins  map[string]credentials `json:"contexts"`
}

// validContext matches the names of contexts.
var validContext = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,99}$`)

// find returns the login with the given name.
func (s *contexts) find(name string) (credentials, error) {
	login, ok := s.Logins[name]
	switch {
	case ok:
		return login, nil
	case len(s.Logins) == 0:
		return login, fmt.Errorf("there is no context '%s', because you are not logged in: run 'stint auth login --context %s'", name, quote(name))
	}
	return login, fmt.Errorf("there is no context '%s'; there is %s", name, strings.Join(s.names(), ", "))
}

func (s *contexts) names() []string { return slices.Sorted(maps.Keys(s.Logins)) }

// at returns the names of the contexts with the given server.
func (s *contexts) at(address string) []string {
	return slices.DeleteFunc(s.names(), func(name string) bool { return s.Logins[name].URL != address })
}

// remove forgets a login. If it was the current one and a single login is left, that one
// becomes the current one.
func (s *contexts) remove(name string) {
	delete(s.Logins, name)
	if s.Current != name {
		return
	}
	s.Current = ""
	if left := s.names(); len(left) == 1 {
		s.Current = left[0]
	}
}

// credentialsPath returns the path of the configuration file. It returns an error
// if neither XDG_CONFIG_HOME nor HOME is an absolute path.
func (a *app) credentialsPath() (string, error) {
	if base := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "stint", "config.json"), nil
	}
	home := a.getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("there is no home folder for the configuration (HOME is '%s'): set HOME or XDG_CONFIG_HOME, or put the token into STINT_TOKEN", home)
	}
	return filepath.Join(home, ".config", "stint", "config.json"), nil
}

// readContexts reads the configuration file. If there is no file or no home directory,
// it returns no contexts. Earlier versions stored a single login, which becomes the
// current context.
func (a *app) readContexts() (*contexts, error) {
	none := &contexts{Logins: map[string]credentials{}}
	path, err := a.credentialsPath()
	if err != nil {
		return none, nil //nolint:nilerr // a token in the environment needs no home directory
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	var file struct {
		contexts
		credentials
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("the configuration %s is damaged (%w): remove it and log in again with 'stint auth login'", path, err)
	}
	if file.Logins != nil {
		return &file.contexts, nil
	}
	if file.Token != "" {
		none.Current = file.contextName()
		none.Logins[none.Current] = file.credentials
	}
	return none, nil
}

// writeContexts replaces the configuration file atomically and returns its path. Only
// the owner of the file can read it. Without contexts, writeContexts removes the file.
func (a *app) writeContexts(s *contexts) (string, error) {
	path, err := a.credentialsPath()
	if err != nil {
		return "", err
	}
	if len(s.Logins) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("remove the configuration: %w", err)
		}
		return path, nil
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	if err := replaceFile(path, append(content, '\n')); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return path, nil
}

func replaceFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return privatefile.Replace(path, content)
}

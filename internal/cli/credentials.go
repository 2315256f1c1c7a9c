package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/privatefile"
)

// credentials contains the server that the user logged in to, and the token. It is
// stored in the configuration file of the command line.
type credentials struct {
	URL     string `json:"url"`
	Token   string `json:"token"`
	TokenID string `json:"tokenId,omitempty"`
	Org     string `json:"org,omitempty"`
	User    string `json:"user,omitempty"`
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

// readCredentials reads the configuration file. If there is no file or no home
// directory, it returns the zero value.
func (a *app) readCredentials() (credentials, error) {
	path, err := a.credentialsPath()
	if err != nil {
		return credentials{}, nil //nolint:nilerr // a token in the environment needs no home directory
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return credentials{}, nil
	}
	if err != nil {
		return credentials{}, fmt.Errorf("read the configuration: %w", err)
	}
	var l credentials
	if err := json.Unmarshal(content, &l); err != nil {
		return credentials{}, fmt.Errorf("the configuration %s is damaged (%w): log in again with 'stint auth login'", path, err)
	}
	return l, nil
}

// writeCredentials replaces the configuration file atomically and returns its path.
// Only the owner of the file can read it.
func (a *app) writeCredentials(l credentials) (string, error) {
	path, err := a.credentialsPath()
	if err != nil {
		return "", err
	}
	content, err := json.MarshalIndent(l, "", "  ")
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

// removeCredentials removes the configuration file if it exists.
func (a *app) removeCredentials() error {
	path, err := a.credentialsPath()
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the configuration: %w", err)
	}
	return nil
}

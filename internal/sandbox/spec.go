package sandbox

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate tells what of the spec no driver can accept. Drivers call it first
// in Prepare, so that all of them refuse the same things.
func (s Spec) Validate() error {
	if !validID(s.ID) {
		return fmt.Errorf("sandbox: ID %q is not 1 to 64 of a-z, 0-9, _ and -", s.ID)
	}
	for _, dir := range []string{s.Home, s.Workspace} {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("sandbox: folder %q is not absolute", dir)
		}
	}
	for _, dir := range []string{s.Scratch, s.Run, s.Image} {
		if dir != "" && !filepath.IsAbs(dir) {
			return fmt.Errorf("sandbox: folder %q is not absolute", dir)
		}
	}
	for _, m := range s.Mounts {
		if err := m.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// taken are the folders that a mount may lie below, where a driver allows it,
// but never replace: the sandbox is built of them.
var taken = []string{"/", "/proc", "/dev", "/sys", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/run", RunDir, "/tmp", "/home", HomeDir, WorkspaceDir}

// Validate tells what of a mount no driver can accept.
func (m Mount) Validate() error {
	switch {
	case !filepath.IsAbs(m.Source):
		return fmt.Errorf("sandbox: mount source %q is not absolute", m.Source)
	case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || strings.ContainsRune(m.Target, 0), !utf8.ValidString(m.Target):
		return fmt.Errorf("sandbox: mount target %q is not an absolute, clean path in UTF-8", m.Target)
	case slices.Contains(taken, m.Target),
		strings.HasPrefix(m.Target, "/proc/"), strings.HasPrefix(m.Target, "/dev/"), strings.HasPrefix(m.Target, RunDir+"/"):
		return &Error{Message: fmt.Sprintf("The path %s inside the sandbox is reserved; mount the folder elsewhere.", m.Target)}
	}
	return nil
}

func validID(id string) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

package sandbox

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate returns an error if no driver can accept the spec. Drivers call it
// first in Prepare, so that all of them refuse the same specs.
func (s Spec) Validate() error {
	if !validID(s.ID) {
		return fmt.Errorf("sandbox: ID %q is not 1 to 64 of a-z, 0-9, _ and -", s.ID)
	}
	optional := func(dir string) string { return cmp.Or(dir, "/") }
	for _, dir := range []string{s.Home, s.Workspace, optional(s.Scratch), optional(s.Run), optional(s.Image)} {
		if !filepath.IsAbs(dir) {
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

// reservedTargets are folders that a mount cannot replace, except that an overlay can
// replace HomeDir and WorkspaceDir. Mounts below some of them are possible if the driver
// supports it.
var reservedTargets = []string{"/", "/proc", "/dev", "/sys", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/run", RunDir, "/tmp", "/home", HomeDir, WorkspaceDir}

// Validate returns an error if no driver can accept the mount.
func (m Mount) Validate() error {
	if err := m.validateFolders(); err != nil {
		return err
	}
	for _, target := range append([]string{m.Target}, m.Alias...) {
		if err := validateTarget(target, m.NeedsOverlay()); err != nil {
			return err
		}
	}
	return nil
}

func (m Mount) validateFolders() error {
	folders := m.Layers
	switch {
	case (m.Source == "") == (len(m.Layers) == 0):
		return fmt.Errorf("sandbox: the mount at %s has both a source and layers, or neither", m.Target)
	case len(m.Layers) > MaxLayers:
		return fmt.Errorf("sandbox: the mount at %s has %d layers, more than %d", m.Target, len(m.Layers), MaxLayers)
	case m.Upper != "" && len(m.Layers) == 0, m.Writable && len(m.Layers) > 0:
		return fmt.Errorf("sandbox: the mount at %s mixes what belongs to a source and to layers", m.Target)
	case m.Source != "":
		folders = []string{m.Source}
	case m.Upper != "":
		folders = append(slices.Clone(m.Layers), m.Upper)
	}
	for _, dir := range folders {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("sandbox: mount source %q is not absolute", dir)
		}
	}
	return nil
}

// validateTarget returns an error if a mount cannot have the target. Only mounts with
// an overlay (layered) may replace the agent's own folders.
func validateTarget(target string, layered bool) error {
	switch {
	case !path.IsAbs(target) || path.Clean(target) != target || strings.ContainsRune(target, 0), !utf8.ValidString(target):
		return fmt.Errorf("sandbox: mount target %q is not an absolute, clean path in UTF-8", target)
	case layered && IsAgentDir(target):
	case slices.Contains(reservedTargets, target),
		strings.HasPrefix(target, "/proc/"), strings.HasPrefix(target, "/dev/"), strings.HasPrefix(target, RunDir+"/"):
		return &Error{Message: fmt.Sprintf("The path %s inside the sandbox is reserved; mount the folder elsewhere.", target)}
	}
	return nil
}

// IsAgentDir reports whether target is one of the agent's own folders, which
// overlays may replace.
func IsAgentDir(target string) bool { return target == HomeDir || target == WorkspaceDir }

// NeedsOverlay reports whether a mount requires a driver that supports
// overlays.
func (m Mount) NeedsOverlay() bool { return len(m.Layers) > 1 || m.Upper != "" }

// Flatten replaces each mount that needs no overlay by mounts with a Source, one for
// its target and one for each alias, so that drivers need not handle aliases and
// single layers. Mounts that need an overlay are unchanged.
func Flatten(mounts []Mount) []Mount {
	plain := make([]Mount, 0, len(mounts))
	for _, m := range mounts {
		if m.NeedsOverlay() {
			plain = append(plain, m)
			continue
		}
		source := m.Source
		if len(m.Layers) > 0 {
			source = m.Layers[0]
		}
		for _, target := range append([]string{m.Target}, m.Alias...) {
			plain = append(plain, Mount{Source: source, Target: target, Writable: m.Writable})
		}
	}
	return plain
}

func validID(id string) bool {
	return len(id) >= 1 && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

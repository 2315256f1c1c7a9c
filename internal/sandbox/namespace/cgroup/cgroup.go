// Package cgroup limits, measures, and kills groups of processes.
//
// It supports three kinds of host: cgroup v2 with a delegated subtree; cgroup
// v1 with a folder per controller, often next to a v2 hierarchy that has no
// controllers but can still kill and count; and hosts without write access,
// where groups have no limits. Enforced and Notes report missing limits.
//
// All groups of an installation are in the folder stint-<instance> inside the
// server's own group, in each hierarchy. The host's limits on the server therefore
// apply to sandboxes too, and a later process finds the groups of an earlier one.
package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Config contains the location of the groups.
type Config struct {
	// Instance distinguishes installations on one host: 1 to 32 characters of
	// a-z, 0-9, and -.
	Instance string
	// Root is the folder that contains proc and sys; / if empty.
	Root string
	// Remove removes an empty group; os.Remove if nil.
	Remove func(dir string) error
}

// Parent creates groups. It is safe for concurrent use.
type Parent struct {
	remove  func(string) error
	v2      *controllerTree            // cgroup v2; nil if it cannot be used
	v1      map[string]*controllerTree // cgroup v1 by controller
	v1Trees []*controllerTree          // the values of v1, each once: controllers can share a hierarchy
	notes   []string                   // sentences for the operator
}

// controllerTree is the folder of this parent in one mounted hierarchy.
type controllerTree struct {
	dir         string
	controllers []string // controllers that are used
}

// Open detects the host's control groups. It fails only for an invalid
// configuration or if proc cannot be read. On a host without usable groups the
// Parent enforces nothing.
func Open(c Config) (*Parent, error) {
	if !validInstance(c.Instance) {
		return nil, fmt.Errorf("cgroup: instance %q is not 1 to 32 of a-z, 0-9 and -", c.Instance)
	}
	c.Root = cmp.Or(c.Root, "/")
	own, err := readOwn(c.Root)
	if err != nil {
		return nil, err
	}
	p := &Parent{remove: c.Remove, v1: map[string]*controllerTree{}}
	if p.remove == nil {
		p.remove = os.Remove
	}
	name := "stint-" + c.Instance
	for _, o := range own {
		if o.isV2() {
			p.openV2(o.dir, name)
		} else {
			p.openV1(o, name)
		}
	}
	return p, nil
}

// usedControllers are the controllers that are used for limits or usage.
var usedControllers = []string{"cpu", "cpuacct", "memory", "pids"}

func (p *Parent) openV1(o ownGroup, name string) {
	var use []string
	for _, c := range o.controllers {
		if slices.Contains(usedControllers, c) && p.v1[c] == nil {
			use = append(use, c)
		}
	}
	if len(use) == 0 {
		return
	}
	dir := filepath.Join(o.dir, name)
	if err := makeDir(dir); err != nil {
		p.notes = append(p.notes, fmt.Sprintf("The cgroup v1 controllers %s cannot be used: %v.", strings.Join(use, ","), err))
		return
	}
	h := &controllerTree{dir: dir, controllers: use}
	p.v1Trees = append(p.v1Trees, h)
	for _, c := range use {
		p.v1[c] = h
	}
}

// Enforced returns the limits that the kernel enforces with groups.
func (p *Parent) Enforced() sandbox.Enforced {
	return sandbox.Enforced{CPU: p.has("cpu"), Memory: p.has("memory"), Pids: p.has("pids")}
}

// has reports whether groups can use a controller.
func (p *Parent) has(controller string) bool {
	return p.v1[controller] != nil || p.v2 != nil && slices.Contains(p.v2.controllers, controller)
}

// Notes returns sentences for the operator about missing features.
func (p *Parent) Notes() []string { return slices.Clone(p.notes) }

// Kind returns the kind of control groups that can be used: v2, v1, hybrid
// (limits by v1, killing and some counters by v2), or none.
func (p *Parent) Kind() string {
	switch {
	case p.v2 != nil && len(p.v1Trees) > 0:
		return "hybrid"
	case p.v2 != nil:
		return "v2"
	case len(p.v1Trees) > 0:
		return "v1"
	}
	return "none"
}

// Dirs returns the folders that contain this parent's groups. A later process
// passes them to Sweep, because its own group, and therefore its folders, may differ.
func (p *Parent) Dirs() []string {
	var dirs []string
	if p.v2 != nil {
		dirs = append(dirs, p.v2.dir)
	}
	for _, h := range p.v1Trees {
		dirs = append(dirs, h.dir)
	}
	return dirs
}

// Close removes the parent's folders. All groups must have been closed. If a folder
// is busy, Close retries for at most a second.
func (p *Parent) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, dir := range p.Dirs() {
		errs = append(errs, remove(ctx, p.remove, dir))
	}
	return errors.Join(errs...)
}

// validInstance reports whether s is 1 to 32 characters of a-z, 0-9, and -. It does
// not use a regular expression: init runs this program, so compiling an expression
// at initialization would delay the start of every sandbox.
func validInstance(s string) bool {
	return len(s) >= 1 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// write writes a control file. The kernel has created the file; only in tests,
// write creates it.
func write(dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("cgroup: setting %s: %w", file, err)
	}
	return nil
}

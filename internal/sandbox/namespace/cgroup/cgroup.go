// Package cgroup answers: how are a sandbox's resources limited, counted and
// ended?
//
// It hides three kinds of host behind one type: cgroup v2 with a delegated
// subtree, cgroup v1 with a folder per controller (often beside a v2 hierarchy
// that holds no controller but still kills and counts), and hosts where nothing
// may be written, which get groups that limit nothing and say so.
//
// All groups of one installation lie below one folder, stint-<instance>, inside
// the server's own group, so that the host's limits on the server hold for the
// sandboxes too and a later process finds what an earlier one left.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config says where groups are made.
type Config struct {
	// Instance tells installations on one host apart: 1 to 32 of a-z, 0-9, -.
	Instance string
	// Root is the folder that holds proc and sys; / when empty.
	Root string
	// Remove removes an empty group; rmdir when nil.
	Remove func(dir string) error
}

// Enforced tells which limits the host's kernel holds for us.
type Enforced struct{ CPU, Memory, Pids bool }

// Limits of one group; a zero field is unlimited.
type Limits struct {
	CPU    float64 // cores
	Memory int64   // bytes
	Pids   int64
}

// Parent makes groups. It is safe for concurrent use.
type Parent struct {
	remove  func(string) error
	v2      *controllerTree            // v2, nil when not usable
	v1      map[string]*controllerTree // v1 by controller
	v1Trees []*controllerTree          // v1, each once although several controllers may share it
	notes   []string
}

// hierarchy is one mounted tree of groups, at our own parent folder.
type controllerTree struct {
	dir         string
	controllers []string
}

// Open finds what the host offers. It fails only on a bad config or an
// unreadable proc: a host without usable groups gives a Parent that enforces
// nothing.
func Open(c Config) (*Parent, error) {
	if !validInstance(c.Instance) {
		return nil, fmt.Errorf("cgroup: instance %q is not 1 to 32 of a-z, 0-9 and -", c.Instance)
	}
	if c.Root == "" {
		c.Root = "/"
	}
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

// wanted are the controllers that limit or count something for us.
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

// Enforced tells which limits hold.
func (p *Parent) Enforced() Enforced {
	return Enforced{CPU: p.has("cpu"), Memory: p.has("memory"), Pids: p.has("pids")}
}

func (p *Parent) has(controller string) bool {
	return p.v1[controller] != nil || p.v2 != nil && slices.Contains(p.v2.controllers, controller)
}

// Notes are sentences for the operator about what does not work here.
func (p *Parent) Notes() []string { return slices.Clone(p.notes) }

// Kind tells how this host keeps control groups, as far as we may use them: v2,
// v1, hybrid (limits by v1, killing and some counts by v2) or none.
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

// Dirs are the folders that hold this parent's groups, for Sweep in a later
// process, which may itself live in another group.
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

// Close removes the parent's own folders, whose groups must be closed: no
// process is awaited.
func (p *Parent) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, dir := range p.Dirs() {
		errs = append(errs, remove(ctx, p.remove, dir))
	}
	return errors.Join(errs...)
}

// validInstance has no regular expression: compiling one would slow the start
// of every sandbox, whose first process is this program.
func validInstance(s string) bool {
	return len(s) >= 1 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// write sets a control file. Control files exist already; only a test's folder
// lets one be made.
func write(dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("cgroup: setting %s: %w", file, err)
	}
	return nil
}

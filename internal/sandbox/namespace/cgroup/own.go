package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownGroup is this process's group in one hierarchy.
type ownGroup struct {
	controllers []string // empty for v2
	dir         string   // path on the file system, below the mount
}

func (o ownGroup) isV2() bool { return len(o.controllers) == 0 }

// mountPoint is a line of mountinfo for a control group mount.
type mountPoint struct {
	root    string // the group that is mounted at path
	path    string // the mount point
	isV2    bool
	options []string
}

// readOwn returns this process's groups from /proc/self/cgroup with their paths
// from mountinfo. Hierarchies that are not mounted or have no controllers, except v2, are
// left out.
func readOwn(root string) ([]ownGroup, error) {
	mounts, err := readMounts(root)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("cgroup: reading groups: %w", err)
	}
	var own []ownGroup
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || strings.HasPrefix(f[1], "name=") {
			continue
		}
		var controllers []string
		if f[1] != "" {
			controllers = strings.Split(f[1], ",")
		}
		if dir, ok := locate(mounts, controllers, f[2]); ok {
			own = append(own, ownGroup{controllers, filepath.Join(root, dir)})
		}
	}
	return own, nil
}

// locate returns the path of a group on the file system. It returns false if the
// hierarchy is not mounted, or if the group is outside the part of the hierarchy
// that is mounted, which is possible in containers.
func locate(mounts []mountPoint, controllers []string, group string) (string, bool) {
	for _, m := range mounts {
		if m.isV2 != (len(controllers) == 0) {
			continue
		}
		if !m.isV2 && !slices.Contains(m.options, controllers[0]) {
			continue
		}
		rel, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
		if !ok || strings.HasPrefix(rel, "/..") {
			continue
		}
		return filepath.Join(m.path, rel), true
	}
	return "", false
}

func readMounts(root string) ([]mountPoint, error) {
	f, err := os.Open(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("cgroup: reading mounts: %w", err)
	}
	defer f.Close()
	var mounts []mountPoint
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // the line of an overlay contains the paths of all layers
	for lines.Scan() {
		if m, ok := parseMount(lines.Text()); ok {
			mounts = append(mounts, m)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cgroup: reading mounts: %w", err)
	}
	return mounts, nil
}

// parseMount parses a line such as
// "36 25 0:31 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu".
func parseMount(line string) (mountPoint, bool) {
	left, right, ok := strings.Cut(line, " - ")
	l, r := strings.Fields(left), strings.Fields(right)
	if !ok || len(l) < 5 || len(r) < 3 {
		return mountPoint{}, false
	}
	m := mountPoint{root: unescape(l[3]), path: unescape(l[4]), options: strings.Split(r[2], ",")}
	switch r[0] {
	case "cgroup2":
		m.isV2 = true
	case "cgroup":
	default:
		return mountPoint{}, false
	}
	return m, true
}

var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func unescape(s string) string { return octal.Replace(s) }

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Observe gives the groups of a process whose names contain name, for their
// counters. Somebody else made them, set their limits and will remove them:
// only Usage and OOMKills are of use, and they fail once the groups are gone.
// root is as in Config. It fails where the host shows no such group.
func Observe(root string, pid int, name string) (*Group, error) {
	if root == "" {
		root = "/"
	}
	groups, err := readGroups(root, strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	g := &Group{parent: &Parent{legacy: map[string]*hierarchy{}}}
	for _, o := range groups {
		base := filepath.Base(o.dir)
		if !strings.Contains(base, name) || g.id != "" && g.id != base {
			continue
		}
		g.id = base
		h := &hierarchy{dir: filepath.Dir(o.dir), controllers: o.controllers}
		if o.unified() {
			b, err := os.ReadFile(filepath.Join(o.dir, "cgroup.controllers"))
			if err != nil {
				return nil, fmt.Errorf("cgroup: %w", err)
			}
			h.controllers = strings.Fields(string(b))
			g.parent.unified, g.dir = h, o.dir
			continue
		}
		g.legacy = append(g.legacy, o.dir)
		for _, c := range o.controllers {
			g.parent.legacy[c] = h
		}
	}
	if g.id == "" {
		return nil, fmt.Errorf("cgroup: the host shows no group %q of process %d", name, pid)
	}
	return g, nil
}

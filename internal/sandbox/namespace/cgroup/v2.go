package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// serverLeaf is the name of the group into which the server moves itself if
// necessary: in cgroup v2, only a group without processes can delegate controllers.
const serverLeaf = "stint-server"

// openV2 creates the parent's folder in the v2 hierarchy and enables controllers
// for its groups. Even without controllers groups are useful, because all processes
// of a group can be killed at once.
func (p *Parent) openV2(own, name string) {
	if filepath.Base(own) == serverLeaf {
		own = filepath.Dir(own)
	}
	dir := filepath.Join(own, name)
	if err := makeDir(dir); err != nil {
		p.notes = append(p.notes, "The server may not create control groups; start it as a service with Delegate=yes for limits on memory, processor and processes.")
		return
	}
	use, err := delegate(own)
	if err != nil {
		p.notes = append(p.notes, fmt.Sprintf("The server's control group delegates no controllers: %v; start it as a service with Delegate=yes.", err))
	}
	if len(use) > 0 {
		if err := write(dir, "cgroup.subtree_control", "+"+strings.Join(use, " +")); err != nil {
			p.notes = append(p.notes, fmt.Sprintf("The controllers %s cannot be enabled: %v.", strings.Join(use, ", "), err))
			use = nil
		}
	}
	p.v2 = &controllerTree{dir: dir, controllers: use}
}

// delegate enables the used controllers for the children of group own, and returns
// their names.
func delegate(own string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	var use []string
	for c := range strings.FieldsSeq(string(b)) {
		if slices.Contains(usedControllers, c) {
			use = append(use, c)
		}
	}
	if len(use) == 0 {
		return nil, nil
	}
	enable := "+" + strings.Join(use, " +")
	err = write(own, "cgroup.subtree_control", enable)
	if errors.Is(err, syscall.EBUSY) {
		if err = moveToLeaf(own); err == nil {
			err = write(own, "cgroup.subtree_control", enable)
		}
	}
	if err != nil {
		return nil, err
	}
	return use, nil
}

// moveToLeaf moves this process into the leaf group. It returns an error if the
// group own contains other processes: a group of other programs must not be changed.
func moveToLeaf(own string) error {
	b, err := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	if err != nil {
		return err
	}
	self := strconv.Itoa(os.Getpid())
	if procs := strings.Fields(string(b)); len(procs) != 1 || procs[0] != self {
		return fmt.Errorf("cgroup: %d processes share it", len(procs))
	}
	leaf := filepath.Join(own, serverLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return write(leaf, "cgroup.procs", self)
}

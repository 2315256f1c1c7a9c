package agentcli

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox"
)

// mount returns the path of a program in a sandbox, with the mounts and variables that
// it needs. If sandboxes do not see the program at its own path, it is mounted in the
// folder name below Dir.
func (f *Finder) mount(name string, p program) (CLI, error) {
	interpreter, script, err := interpreterOf(p.real)
	if err != nil {
		return CLI{}, fmt.Errorf("read a program: %w", err)
	}
	cli := CLI{HostPath: p.real}
	target := path.Join(Dir, name)
	switch root := packageRoot(p.real, script); {
	case f.isUsable(p.real):
		cli.Program.Path = p.real
	case root != "":
		target = path.Join(target, root[strings.LastIndex(root, "/node_modules")+1:])
		cli.Program.Path = path.Join(target, strings.TrimPrefix(p.real, root))
		cli.Mounts = []sandbox.Mount{{Source: root, Target: target}}
	default:
		cli.Program.Path = path.Join(target, filepath.Base(p.at))
		m, err := f.copies.mount(p.real, cli.Program.Path)
		if err != nil {
			return CLI{}, err
		}
		cli.Mounts = []sandbox.Mount{m}
	}
	if script {
		err = f.addInterpreter(&cli, filepath.Base(p.at), interpreter)
	}
	return cli, err
}

// packageDir matches the path of a file in an npm package. Its first group is the
// package's folder.
var packageDir = regexp.MustCompile(`^(.*/node_modules/(?:@[^/]+/)?[^@/][^/]*)/.`)

// packageRoot returns the folder with all files that a program of an npm package
// needs, or "" if the program is not in a package. A binary needs its own package. A
// script needs all packages of the outermost node_modules folder.
func packageRoot(real string, script bool) string {
	if script {
		if before, _, ok := strings.Cut(real, "/node_modules/"); ok {
			return before + "/node_modules"
		}
	} else if m := packageDir.FindStringSubmatch(real); m != nil {
		return m[1]
	}
	return ""
}

// isUsable reports whether every sandbox sees a file and every user may execute it.
func (f *Finder) isUsable(real string) bool {
	if st, err := os.Stat(real); !f.c.Visible(real) || err != nil || st.Mode()&0o005 != 0o005 {
		return false
	}
	for dir := path.Dir(real); ; dir = path.Dir(dir) {
		if st, err := os.Stat(dir); err != nil || st.Mode()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

package agentcli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
)

// modules is the folder in which npm installs packages.
const modules = "node_modules"

// show settles how a sandbox sees a program. name is the folder below Dir for
// what it does not see anyway.
func (f *Finder) show(name string, p program) (CLI, error) {
	found := CLI{HostPath: p.real}
	interpreter, script, err := interpreterOf(p.real)
	if err != nil {
		return CLI{}, fmt.Errorf("look into a program: %w", err)
	}
	target := path.Join(Dir, name)
	switch root := packageRoot(p.real, script); {
	case f.seen(p.real):
		found.Program.Path = p.real
	case root != "":
		target = path.Join(target, root[strings.LastIndex(root, "/"+modules)+1:])
		found.Program.Path = path.Join(target, strings.TrimPrefix(p.real, root))
		found.Mounts = []sandbox.Mount{{Source: root, Target: target}}
	default:
		base := filepath.Base(p.at)
		dir, err := f.keep(p.real, base)
		if err != nil {
			return CLI{}, err
		}
		found.Program.Path = path.Join(target, base)
		found.Mounts = []sandbox.Mount{{Source: dir, Target: target}}
	}
	if script {
		return f.withInterpreter(found, filepath.Base(p.at), interpreter)
	}
	return found, nil
}

// packageRoot is the folder with all that a program of a package needs; empty
// for one of no package. A binary brings what it needs in its own package,
// a script finds others in the outermost folder of them.
func packageRoot(real string, script bool) string {
	if script {
		if before, _, ok := strings.Cut(real, "/"+modules+"/"); ok {
			return before + "/" + modules
		}
		return ""
	}
	at := strings.LastIndex(real, "/"+modules+"/")
	if at < 0 {
		return ""
	}
	dirs := strings.Split(real[at+len(modules)+2:], "/")
	words := 1
	if strings.HasPrefix(dirs[0], "@") {
		words = 2
	}
	if len(dirs) <= words {
		return "" // a file between the packages
	}
	return path.Join(real[:at], modules, path.Join(dirs[:words]...))
}

// seen tells whether every sandbox sees a file and its agent may use it.
func (f *Finder) seen(real string) bool {
	if !f.c.Visible(real) {
		return false
	}
	st, err := os.Stat(real)
	if err != nil || st.Mode()&0o005 != 0o005 {
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

// interpreterOf reads the first line of a script. What is no script is started
// as it is.
func interpreterOf(real string) (words []string, script bool, err error) {
	file, err := os.Open(real)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	line, err := bufio.NewReaderSize(io.LimitReader(file, 512), 512).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	rest, script := bytes.CutPrefix(line, []byte("#!"))
	return strings.Fields(string(rest)), script && len(rest) > 0, nil
}

// single are the interpreters that are one file, so that they can be shown
// alone.
var single = []string{"node", "bun", "deno"}

// sandboxPath is where commands are looked up inside.
var sandboxPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// withInterpreter sees to it that what a script is for is seen too.
func (f *Finder) withInterpreter(found CLI, script string, words []string) (CLI, error) {
	if len(words) == 0 {
		return found, nil // the kernel takes it to the shell, or says what it thinks of it
	}
	name, byEnv := words[0], false
	if path.Base(name) == "env" {
		name, byEnv = envProgram(words[1:]), true
	}
	if name == "" {
		return found, nil
	}
	p, err := f.locate(name)
	if err != nil {
		return CLI{}, stint.InvalidParam("framework", "The program '%s' on this server is a script for '%s', which is not installed there. Install it, and try again.", script, path.Base(name))
	}
	if f.seen(p.real) {
		if dir := path.Dir(p.at); byEnv && !slices.Contains(sandboxPath, dir) {
			found.Path = []string{f.folder(p)}
		}
		return found, nil
	}
	if !byEnv || !slices.Contains(single, name) {
		return CLI{}, stint.InvalidParam("framework", "The program '%s' on this server is a script for '%s', which is installed where sandboxes do not see it. Install that below /usr or /opt, and try again.", script, path.Base(name))
	}
	dir, err := f.keep(p.real, name)
	if err != nil {
		return CLI{}, err
	}
	target := path.Join(Dir, "bin", name)
	found.add(CLI{Path: []string{target}, Mounts: []sandbox.Mount{{Source: dir, Target: target}}})
	return found, nil
}

// folder is one in which a sandbox finds a program that it sees.
func (f *Finder) folder(p program) string {
	if dir, err := filepath.EvalSymlinks(path.Dir(p.at)); err == nil && f.c.Visible(dir) {
		return dir
	}
	return path.Dir(p.real)
}

// envProgram is the program that env is asked to start.
func envProgram(words []string) string {
	for _, w := range words {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}

package agentcli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

var (
	// singleFile contains the interpreters that consist of a single file, which can
	// be mounted without other files.
	singleFile = []string{"node", "bun", "deno"}
	// sandboxPath contains the folders on the default PATH of a sandbox.
	sandboxPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
)

// interpreterOf returns the words after #! in the first line of a script. For any
// other file, script is false.
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

// addInterpreter makes the interpreter of a script available in the sandbox.
func (f *Finder) addInterpreter(cli *CLI, script string, words []string) error {
	name, byEnv := interpreterName(words)
	if name == "" {
		return nil // the first line names no program
	}
	p, err := f.locate(name)
	if err != nil {
		return stint.InvalidParam("framework", "The program '%s' on this server is a script for '%s', which is not installed there. Install it, and try again.", script, path.Base(name))
	}
	switch {
	case f.isUsable(p.real):
		if byEnv && !slices.Contains(sandboxPath, path.Dir(p.at)) {
			cli.Path = []string{f.visibleDir(p)}
		}
	case byEnv && slices.Contains(singleFile, name):
		dir := path.Join(Dir, "bin", name)
		m, err := f.copies.mount(p.real, path.Join(dir, name))
		if err != nil {
			return err
		}
		cli.Mounts, cli.Path = append(cli.Mounts, m), []string{dir}
	default:
		return stint.InvalidParam("framework", "The program '%s' on this server is a script for '%s', which is installed where sandboxes do not see it. Install that below /usr or /opt, and try again.", script, path.Base(name))
	}
	return nil
}

// interpreterName returns the interpreter in the words of a script's first line.
// byEnv is true if the script uses the program env to find the interpreter on the
// PATH.
func interpreterName(words []string) (name string, byEnv bool) {
	if len(words) == 0 {
		return "", false
	}
	if path.Base(words[0]) != "env" {
		return words[0], false
	}
	i := slices.IndexFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") })
	if i < 0 {
		return "", true
	}
	return words[1+i], true
}

// visibleDir returns the folder of a program that sandboxes see: the folder in which
// the worker found it if sandboxes see that folder, and otherwise the folder of the
// file that symbolic links lead to.
func (f *Finder) visibleDir(p program) string {
	if dir, err := filepath.EvalSymlinks(path.Dir(p.at)); err == nil && f.c.Visible(dir) {
		return dir
	}
	return path.Dir(p.real)
}

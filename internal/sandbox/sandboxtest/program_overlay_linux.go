package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox"
)

var overlayAttributes = func() []string {
	var list []string
	for _, prefix := range []string{sandbox.OverlayAttrs, "trusted.overlay."} {
		for _, name := range []string{"opaque", "whiteout", "redirect", "metacopy", "origin", "impure", "nlink", "upper", "xwhiteouts", "protattr", "uuid"} {
			list = append(list, prefix+name)
		}
	}
	return list
}()

func init() {
	programsByName["show"] = showProgram
	programsByName["change"] = changeProgram
	programsByName["append"] = appendProgram
	programsByName["try-change"] = tryChangeProgram
	programsByName["aliases"] = aliasesProgram
	programsByName["remove-permissions"] = removePermissionsProgram
	programsByName["forge-marks"] = forgeMarksProgram
}

// showProgram writes the path of each file below the folder args[0], together with the
// file's content or, for a symbolic link, its target.
func showProgram(g Program, args []string) error {
	return filepath.WalkDir(args[0], func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(path, args[0]+"/")
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			fmt.Fprintf(g.Stdout, "%s -> %s\n", rel, target)
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(g.Stdout, "%s %s\n", rel, b)
		return err
	})
}

func appendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// changeProgram changes files of the layers in all possible ways, and writes the resulting
// files as showProgram does.
func changeProgram(g Program, _ []string) error {
	for i, step := range []func() error{
		func() error { return os.WriteFile("keep", []byte("changed"), 0o644) },
		func() error { return appendTo("dir/x", "+") },
		func() error { return os.Remove("a") },
		func() error { return os.Rename("dir/y", "dir/w") },
		func() error { return os.RemoveAll("replaced") },
		func() error { return os.Mkdir("replaced", 0o755) },
		func() error { return os.WriteFile("replaced/h", []byte("h"), 0o644) },
		func() error { return os.RemoveAll("deep") },
		func() error { return os.Mkdir("new", 0o755) },
		func() error { return os.WriteFile("new/file", []byte("new"), 0o644) },
		func() error { return os.Rename("new", "newer") },
		func() error { return os.Chmod("closed", 0o555) },
		func() error { return appendTo("closed/f", "+") }, // the file is writable, but its folder is not
		func() error { // a file or folder that is created and removed again leaves no whiteout
			return errors.Join(os.WriteFile("short", nil, 0o644), os.Remove("short"), os.Mkdir("brief", 0o755), os.Remove("brief"))
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err := os.Rename("hidden", "moved"); err != nil && !errors.Is(err, syscall.EXDEV) {
		return err
	}
	return showProgram(g, []string{sandbox.WorkspaceDir})
}

// appendProgram appends a byte to the file args[0] and keeps running.
func appendProgram(g Program, args []string) error {
	if err := appendTo(args[0], "+"); err != nil {
		return err
	}
	return ignoreTermProgram(g, nil)
}

// tryChangeProgram writes "refused" if none of the folders args can be changed. Otherwise it
// fails.
func tryChangeProgram(g Program, args []string) error {
	for _, dir := range args {
		for what, err := range map[string]error{
			"written":  os.WriteFile(dir+"/keep", nil, 0o644),
			"made":     os.WriteFile(dir+"/new", nil, 0o644),
			"removed":  os.Remove(dir + "/a"),
			"renamed":  os.Rename(dir+"/a", dir+"/b"),
			"opened":   os.Chmod(dir+"/a", 0o777),
			"a folder": os.Mkdir(dir+"/folder", 0o755),
		} {
			if err == nil {
				return fmt.Errorf("in %s a file is %s", dir, what)
			}
		}
	}
	_, err := fmt.Fprint(g.Stdout, "refused")
	return err
}

// aliasesProgram writes a file in each of the folders args and checks that it is
// visible in all of them.
func aliasesProgram(_ Program, args []string) error {
	for i, from := range args {
		text := "from " + from
		if err := os.WriteFile(fmt.Sprintf("%s/%d", from, i), []byte(text), 0o644); err != nil {
			return err
		}
		for _, at := range args {
			if b, err := os.ReadFile(fmt.Sprintf("%s/%d", at, i)); err != nil || string(b) != text {
				return fmt.Errorf("at %s there is %q: %w", at, b, err)
			}
		}
	}
	return nil
}

// removePermissionsProgram removes all permissions of changed, new, and unchanged files
// and folders.
func removePermissionsProgram(_ Program, _ []string) error {
	return errors.Join(
		appendTo("dir/x", "+"), os.Chmod("dir/x", 0), os.Chmod("dir", 0),
		os.MkdirAll("new/below", 0o755), os.Chmod("new/below", 0), os.Chmod("new", 0),
		os.Chmod("deep", 0), os.Chmod("t", 0),
	)
}

// forgeMarksProgram tries to set the attributes and create the files that overlays use as
// marks, and to remove existing marks. If a forged mark hides a file, the program writes the
// error of accessing that file.
func forgeMarksProgram(g Program, _ []string) error {
	if err := errors.Join(os.RemoveAll("replaced"), os.MkdirAll("replaced", 0o755), os.MkdirAll("own/folder", 0o755), os.WriteFile("own/file", nil, 0o644)); err != nil {
		return err
	}
	for _, name := range []string{".", "victim", "victim/sub", "victim/file", "own", "own/folder", "own/file", "replaced"} {
		for _, attr := range overlayAttributes {
			if name == "replaced" {
				_ = unix.Removexattr(name, attr)
				continue
			}
			value := "forged"
			if strings.HasSuffix(attr, "opaque") {
				value = "y"
			}
			_ = unix.Setxattr(name, attr, []byte(value), 0)
			_ = unix.Setxattr(name, strings.Replace(attr, "overlay.", "overlay.overlay.", 1), []byte(value), 0)
		}
	}
	_ = unix.Mknod("whiteout", unix.S_IFCHR, 0)
	_ = unix.Mknod("victim/whiteout", unix.S_IFCHR|0o666, 0)
	_ = os.WriteFile("moved", []byte("x"), 0o644)
	_ = unix.Renameat2(unix.AT_FDCWD, "moved", unix.AT_FDCWD, "elsewhere", unix.RENAME_WHITEOUT)
	for _, name := range []string{"victim/file", "victim/sub"} {
		if _, err := os.Stat(name); err != nil {
			fmt.Fprintln(g.Stdout, err)
		}
	}
	return nil
}

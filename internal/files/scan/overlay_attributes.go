package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// overlayPrefixes are the attribute prefixes of overlays mounted by root and by
// users.
var overlayPrefixes = [...]string{"trusted.overlay.", "user.overlay."}

// isWhiteout reports whether an entry is a whiteout in the form of a device.
func isWhiteout(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && s.Rdev == 0
}

// overlayMarks reads the overlay attributes of an open file or folder.
func overlayMarks(f *os.File) (m overlayFlags, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return overlayFlags{}, fmt.Errorf("reading attributes: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return overlayFlags{}, err
	}
	var failed error
	err = c.Control(func(fd uintptr) { m, failed = marksOf(int(fd), info) })
	if err = errors.Join(err, failed); err != nil {
		return overlayFlags{}, fmt.Errorf("reading attributes: %w", err)
	}
	return m, nil
}

func marksOf(fd int, info fs.FileInfo) (m overlayFlags, err error) {
	for _, prefix := range overlayPrefixes {
		for _, name := range [...]string{"redirect", "metacopy"} {
			_, ok, err := attribute(fd, prefix+name)
			if err != nil {
				return overlayFlags{}, err
			}
			m.partial = m.partial || ok
		}
		name := "opaque"
		if !info.IsDir() {
			if info.Size() > 0 {
				continue
			}
			name = "whiteout"
		}
		value, ok, err := attribute(fd, prefix+name)
		if err != nil {
			return overlayFlags{}, err
		}
		m.hides = m.hides || ok && (!info.IsDir() || value == "y")
	}
	return m, nil
}

// attribute returns the value of an extended attribute, or "" if the value has more
// than four bytes. ok reports whether the attribute exists.
func attribute(fd int, name string) (value string, ok bool, err error) {
	var b [4]byte
	n, err := unix.Fgetxattr(fd, name, b[:])
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, errors.ErrUnsupported):
		return "", false, nil
	case errors.Is(err, unix.ERANGE):
		return "", true, nil // longer than any value with a meaning
	case err != nil:
		return "", false, os.NewSyscallError("fgetxattr", err)
	}
	return string(b[:n]), true, nil
}

// hasOverlayAttributes reports whether an open file or folder has extended attributes
// that an overlay over it would interpret, or too many attributes to inspect.
func hasOverlayAttributes(f *os.File) (found bool, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("reading attributes: %w", err)
	}
	names := make([]byte, 1024)
	var n int
	var failed error
	err = c.Control(func(fd uintptr) { n, failed = unix.Flistxattr(int(fd), names) })
	switch {
	case errors.Is(failed, unix.ERANGE):
		return true, nil // too many to inspect
	case errors.Is(failed, errors.ErrUnsupported):
		return false, nil
	case errors.Join(err, failed) != nil:
		return false, fmt.Errorf("reading attributes: %w", errors.Join(err, failed))
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		for _, prefix := range overlayPrefixes {
			found = found || strings.HasPrefix(name, prefix)
		}
	}
	return found, nil
}

package content

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// overlayPrefixes are those of the attributes of overlays that were mounted by
// root and by users.
var overlayPrefixes = [...]string{"trusted.overlay.", "user.overlay."}

// isWhiteout tells whether an entry is the device that stands for nothing.
func isWhiteout(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && s.Rdev == 0
}

// overlayMarks reads the marks of an open file or folder.
func overlayMarks(f *os.File) (m marks, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return marks{}, fmt.Errorf("reading attributes: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return marks{}, err
	}
	var failed error
	err = c.Control(func(fd uintptr) { m, failed = marksOf(int(fd), info) })
	if err = errors.Join(err, failed); err != nil {
		return marks{}, fmt.Errorf("reading attributes: %w", err)
	}
	return m, nil
}

func marksOf(fd int, info fs.FileInfo) (m marks, err error) {
	for _, prefix := range overlayPrefixes {
		for _, name := range [...]string{"redirect", "metacopy"} {
			_, ok, err := attribute(fd, prefix+name)
			if err != nil {
				return marks{}, err
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
			return marks{}, err
		}
		m.hides = m.hides || ok && (!info.IsDir() || value == "y")
	}
	return m, nil
}

// attribute gives the beginning of an attribute's value.
func attribute(fd int, name string) (value string, ok bool, err error) {
	var b [4]byte
	n, err := unix.Fgetxattr(fd, name, b[:])
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, errors.ErrUnsupported):
		return "", false, nil
	case errors.Is(err, unix.ERANGE):
		return "", true, nil // longer than anything of meaning
	case err != nil:
		return "", false, os.NewSyscallError("fgetxattr", err)
	}
	return string(b[:n]), true, nil
}

//go:build linux && (amd64 || arm64)

package setup

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/internal/sandbox/layout"
)

// mountTrust mounts the trust bundle over each of the system's certificate files. If
// the system has none, it creates the first of layout.CertificateFiles.
func mountTrust(root int, trust Mount, tree int) error {
	if trust.Source == "" {
		return nil
	}
	covered, err := mountOverCertificates(root, tree)
	if err == nil && covered == 0 {
		if err = makeCertificateFile(root, layout.CertificateFiles[0]); err == nil {
			covered, err = mountOverCertificates(root, tree)
		}
	}
	if err == nil && covered == 0 {
		err = errors.New("the system has no certificate file")
	}
	if err != nil {
		return fmt.Errorf("mounting trusted certificates: %w", err)
	}
	return nil
}

// mountOverCertificates mounts tree over each certificate file that exists, and
// returns the number of these files.
func mountOverCertificates(root, tree int) (int, error) {
	covered := 0
	for _, s := range layout.CertificateFiles {
		at, err := openBeneath(root, s, 0, 0)
		if err != nil {
			continue // the system does not have this file
		}
		err = mountOver(at, tree, covered > 0)
		unix.Close(at)
		if err != nil {
			return covered, fmt.Errorf("%s: %w", s, err)
		}
		covered++
	}
	return covered, nil
}

// mountOver mounts tree over the file at. If clone is true, tree is mounted already,
// and mountOver mounts a clone of it.
func mountOver(at, tree int, clone bool) error {
	var target, bundle unix.Stat_t
	if err := errors.Join(unix.Fstat(at, &target), unix.Fstat(tree, &bundle)); err != nil {
		return err
	}
	if target.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("it is not a regular file")
	}
	if target.Dev == bundle.Dev && target.Ino == bundle.Ino {
		return nil // the path is another name of a file over which tree is mounted
	}
	if clone {
		fd, err := unix.OpenTree(tree, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		tree = fd
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// makeCertificateFile creates an empty file. If its folder is read-only,
// makeCertificateFile mounts a new file system over the folder, which hides the
// folder's files. The folder contains no certificate file.
func makeCertificateFile(root int, file string) error {
	dir := path.Dir(file)
	if err := makeFolder(root, dir); err != nil {
		return err
	}
	at, err := openBeneath(root, dir, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	fd, err := unix.Openat(at, path.Base(file), unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		if err := unix.Mount("stint", "."+dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
			return err
		}
		fd, err = unix.Open("."+file, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

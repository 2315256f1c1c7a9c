package cli

import "golang.org/x/sys/unix"

// freeSpace is how many bytes this user may still write below a folder.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// writable is nil when this user may make entries in the folder.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

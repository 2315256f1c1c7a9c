package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/privatefile"
)

// dataFolder is the data folder of an installation. While it is open, no other server
// can open it.
type dataFolder struct {
	path string
	host string // identifier of this installation
	lock *os.File
}

// openData locks the data folder. If it is missing, openData creates it with access for
// its owner only.
func openData(path string, ids *stint.IDs) (*dataFolder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the data folder (choose another with --data): %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder (choose another with --data): %w", err)
	}
	d := &dataFolder{path: path, lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("the data folder %s is in use by another stint server; stop that server or choose another folder with --data", path)
		}
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if d.host, err = readOrCreate(d.join("instance"), func() string { return ids.New("host_") }); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("read the identifier of the installation: %w", err)
	}
	return d, nil
}

func (d *dataFolder) join(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

func (d *dataFolder) close() error { return d.lock.Close() }

// readOrCreate returns the text in a file without surrounding white space. If the file is
// missing or empty, readOrCreate writes the result of create to it and returns that.
func readOrCreate(path string, create func() string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(b)) != "" {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	value := create()
	return value, privatefile.Replace(path, []byte(value+"\n"))
}

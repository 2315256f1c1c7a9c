package index_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestEvictionDoesNotBlockOthers lets the file that an eviction writes be a
// pipe, which takes at most 4096 bytes before a reader empties it.
func TestEvictionDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := open(t, dir)
	var dropped []string
	for i := range 200 {
		name := fmt.Sprintf("%04d%s", i, strings.Repeat("x", 196))
		add(t, x, "org_slow", name, pack{i, 1})
		if i < 40 {
			dropped = append(dropped, name)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if err := x.Drop("org_slow", dropped); err != nil { // which the file names
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "org_slow", "state.new")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if _, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 31 {
		add(t, x, fmt.Sprintf("org_%d", i), "p", pack{i, 1})
	}
	evicted, found := make(chan error, 1), make(chan error, 1)
	go func() { evicted <- x.Add("org_more", "p", pack{1, 1}.chunks()) }()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil { // it is being written
		t.Fatal(err)
	}
	go func() {
		_, _, err := x.Find("org_1", hashOf(1))
		found <- err
	}()
	select {
	case err := <-found:
		if err != nil {
			t.Error(err)
		}
		found <- nil
	case <-time.After(time.Minute):
		t.Error("Find waits for the eviction of another")
	}
	select {
	case err := <-evicted:
		t.Errorf("the eviction ended without its file, %v", err)
	default:
	}
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(io.Discard, r) }) // until r is closed
	if err := <-evicted; err != nil {
		t.Error(err)
	}
	<-found
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	reader.Wait()
}

//go:build linux && (amd64 || arm64)

package diskusage

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// addDeleted adds the deleted files that a process still has open or mapped, if they are
// on the devices of the folders. Such files use space until they are closed. addDeleted
// ignores processes that it cannot read: they have ended or belong to another user.
func (w *walk) addDeleted(proc string) {
	w.remaining = w.maxEntries
	for _, process := range numericEntries(proc) {
		base := filepath.Join(proc, process)
		w.descriptors(base)
		w.mappings(base)
		if w.done() {
			return
		}
	}
}

// numericEntries returns the entries of a folder that have a number as their name.
func numericEntries(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	kept := names[:0]
	for _, n := range names {
		if _, err := strconv.Atoi(n); err == nil {
			kept = append(kept, n)
		}
	}
	return kept
}

// descriptors adds the deleted files that a process has open. All its threads share
// one descriptor table, because the seccomp filter forbids separate tables. The
// main thread may have ended, so the first thread with open descriptors counts.
func (w *walk) descriptors(base string) {
	for _, thread := range numericEntries(filepath.Join(base, "task")) {
		w.countEntry()
		if w.addTable(filepath.Join(base, "task", thread, "fd")) || w.done() {
			return
		}
	}
}

// addTable adds the files of a descriptor table and reports whether it has any
// descriptor.
func (w *walk) addTable(dir string) (some bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	d := os.NewFile(uintptr(fd), "fd")
	defer d.Close()
	for !w.done() {
		names, err := d.Readdirnames(256)
		for _, name := range names {
			some = true
			w.addIfDeleted(fd, name)
		}
		if err != nil {
			break
		}
	}
	return some
}

// mappings adds mapped files that the kernel marks as deleted. Only root can open
// the entries of map_files.
func (w *walk) mappings(base string) {
	maps, err := os.Open(filepath.Join(base, "maps"))
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); !w.done() && lines.Scan(); {
		w.countEntry()
		line := lines.Bytes()
		if !bytes.HasSuffix(line, []byte(" (deleted)")) {
			continue
		}
		span, _, _ := bytes.Cut(line, []byte(" "))
		from, to, ok := bytes.Cut(span, []byte("-"))
		if !ok {
			continue
		}
		// The names in map_files have no leading zeros.
		name := string(bytes.TrimLeft(from, "0")) + "-" + string(bytes.TrimLeft(to, "0"))
		w.addIfDeleted(unix.AT_FDCWD, filepath.Join(base, "map_files", name))
	}
}

// addIfDeleted adds a file if it is regular, has no name, is on one of the devices, and
// was not added before.
func (w *walk) addIfDeleted(dir int, name string) {
	w.countEntry()
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, 0); err != nil {
		return
	}
	key := [2]uint64{uint64(st.Dev), st.Ino}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 || !w.devices[key[0]] || w.seen[key] {
		return
	}
	w.seen[key] = true
	w.bytes += max(st.Blocks*512, minEntryBytes)
}

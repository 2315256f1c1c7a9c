package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine says where the numbers come from.
type Machine struct {
	CPUs       int    `json:"cpus"`
	CPU        string `json:"cpu"`
	Memory     string `json:"memory"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Folder     string `json:"folder"` // that holds the temporary ones
	FileSystem string `json:"fileSystem"`
	Device     string `json:"device"`
	Database   string `json:"database"`
	Load       string `json:"loadAverage"` // over 1, 5 and 15 minutes, at the beginning
}

// describeMachine reads what the kernel tells; what it does not is "unknown".
func describeMachine(folder, database string) Machine {
	m := Machine{
		CPUs: runtime.NumCPU(), CPU: field("/proc/cpuinfo", "model name"), Memory: "unknown",
		Kernel: "unknown", Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Folder: folder, Database: database, Load: loadAverage(),
	}
	if kib, err := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		m.Memory = fmt.Sprintf("%.0f GiB", kib/(1<<20))
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	m.FileSystem, m.Device = mountOf(folder)
	return m
}

// field is the first value of a "name : value" line of a file in /proc.
func field(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(content))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// mountOf finds the file system of a folder and what it lies on.
func mountOf(folder string) (fileSystem, device string) {
	fileSystem, device = "unknown", "unknown"
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fileSystem, device
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	longest := -1
	for line := range strings.Lines(string(content)) {
		// 36 35 98:0 /root /mount/point options … - type source options
		before, after, ok := strings.Cut(line, " - ")
		at, what := strings.Fields(before), strings.Fields(after)
		if !ok || len(at) < 5 || len(what) < 2 || !within(at[4], folder) || len(at[4]) < longest {
			continue // of two mounts at one place, the later one covers the other
		}
		longest, fileSystem, device = len(at[4]), what[0], what[1]
	}
	return fileSystem, device
}

func within(parent, folder string) bool {
	return parent == "/" || folder == parent || strings.HasPrefix(folder, parent+"/")
}

// residentBytes is the memory that a process holds.
func residentBytes(pid int) (int64, error) {
	text := strings.TrimSuffix(field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS"), " kB")
	kib, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return kib << 10, nil
}

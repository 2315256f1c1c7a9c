package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// machineFacts describes the measured binary and the machine.
func machineFacts(program, folder, database string) []string {
	memory := float64(memoryField("/proc/meminfo", "MemTotal")) / (1 << 30)
	return []string{
		fmt.Sprintf("Program:   %s (%s)", firstLine(program, "version"), program),
		fmt.Sprintf("Machine:   %d × %s, %.0f GiB memory", runtime.NumCPU(), field("/proc/cpuinfo", "model name"), memory),
		fmt.Sprintf("System:    %s, %s %s/%s", firstLine("uname", "-sr"), runtime.Version(), runtime.GOOS, runtime.GOARCH),
		fmt.Sprintf("Data:      %s (%s)", firstLine("findmnt", "-no", "FSTYPE,SOURCE", "--target", folder), folder),
		"Database:  " + database,
	}
}

// firstLine returns the first line of a program's output.
func firstLine(program string, args ...string) string {
	out, _ := exec.Command(program, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return cmp.Or(line, "unknown")
}

// field returns the value of the first line "name: value" of a file in /proc, or
// "unknown".
func field(path, name string) string {
	content, _ := os.ReadFile(path)
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// memoryField returns a size from a file in /proc in bytes, or 0.
func memoryField(path, name string) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(field(path, name), " kB"), 10, 64)
	return kib << 10
}

func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(content))[:3], " ")
}

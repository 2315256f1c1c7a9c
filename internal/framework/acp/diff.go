package acp

import (
	"fmt"
	"strings"
)

// maxSide is the maximum number of removed lines that a diff shows, and of added
// lines.
const maxSide = 40

// unifiedDiff returns the change of a file in the style of a unified diff, with one
// hunk: all lines from the first to the last difference, without context.
func unifiedDiff(path, before, after string) string {
	a, b := lines(before), lines(after)
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	a, b = a[head:len(a)-tail], b[head:len(b)-tail]
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n@@ -%d,%d +%d,%d @@\n", path, head+1, len(a), head+1, len(b))
	side(&out, "-", a)
	side(&out, "+", b)
	return strings.TrimSuffix(out.String(), "\n")
}

func side(out *strings.Builder, mark string, lines []string) {
	for _, line := range lines[:min(len(lines), maxSide)] {
		out.WriteString(mark + line + "\n")
	}
	if more := len(lines) - maxSide; more > 0 {
		fmt.Fprintf(out, "%s… %d more lines\n", mark, more)
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

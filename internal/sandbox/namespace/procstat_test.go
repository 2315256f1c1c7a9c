//go:build linux

package namespace_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/sandbox/namespace"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	tail := string(own[strings.LastIndexByte(string(own), ')'):])
	for text, ok := range map[string]bool{
		string(own):                          true,
		"1 (a) R (b) S" + tail:               true,
		"":                                   false,
		"1 (x":                               false,
		"1 (x) R 1 2 3":                      false,
		"1 (x) R" + strings.Repeat(" z", 40): false,
	} {
		if err := namespace.ParseStat([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCoreDumpNote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		most    uint64
		want    bool
	}{
		{"core", 0, false},
		{"|/usr/share/apport/apport %p", 0, true},
		{"|/usr/share/apport/apport %p", 1, false},
	} {
		if got := namespace.CoreDumpNote(c.pattern, c.most); (got != "") != c.want {
			t.Errorf("%q with a limit of %d: %q", c.pattern, c.most, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (x) R" + strings.Repeat(" 1", 40)))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = namespace.ParseStat(b) // it must not panic
	})
}

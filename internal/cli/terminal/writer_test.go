package terminal_test

import (
	"bytes"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/cli/terminal"
)

// display writes the text in pieces of the given size and returns what the terminal gets.
func display(t *testing.T, text []byte, size int) string {
	t.Helper()
	var out bytes.Buffer
	raw := false
	w := terminal.NewWriter(&out, &raw)
	for len(text) > 0 {
		n := min(size, len(text))
		if written, err := w.Write(text[:n]); written != n || err != nil {
			t.Fatalf("Write returned %d, %v", written, err)
		}
		text = text[n:]
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWriter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"text":               {"ünï 日本 🎉\tx\r\n", "ünï 日本 🎉\tx\r\n"},
		"colours":            {"\x1b[1;38;5;208mred\x1b[0m", "\x1b[1;38;5;208mred\x1b[0m"},
		"colours left on":    {"\x1b[31mred\n", "\x1b[31mred\n\x1b[0m"},
		"title":              {"\x1b]0;owned\x07", "^[]0;owned^G"},
		"clipboard":          {"\x1b]52;c;aGk=\x1b\\", "^[]52;c;aGk=^[\\"},
		"clear screen":       {"a\x1b[2J\x1b[Hb", "a^[[2J^[[Hb"},
		"private parameters": {"\x1b[?1049h\x1b[>4;1m", "^[[?1049h^[[>4;1m"},
		"C1 as UTF-8":        {"\u009b2J\u009d0;x\u009c", `\u009b2J\u009d0;x\u009c`},
		"C1 as bytes":        {"a\x9b2Jb", `a\x9b2Jb`},
		"others":             {"\x00\a\b\x7f\x0e", "^@^G^H^?^N"},
		"incomplete":         {"\x1b[31", "^[[31"},
		"incomplete rune":    {"\xe6\x97", `\xe6\x97`},
		"escape twice":       {"\x1b\x1b[31mx", "^[\x1b[31mx\x1b[0m"},
		"endless":            {"\x1b[" + string(bytes.Repeat([]byte("1;"), 40)) + "mx", "^[[" + string(bytes.Repeat([]byte("1;"), 40)) + "mx"},
	} {
		for _, size := range []int{1, 2, 3, 1 << 20} {
			if got := display(t, []byte(tt.in), size); got != tt.want {
				t.Errorf("%s in pieces of %d: %q, want %q", name, size, got, tt.want)
			}
		}
	}
}

func TestRawWriterChangesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	raw := true
	if _, err := terminal.NewWriter(&out, &raw).Write([]byte("\x1b]0;x\x07\x9b")); err != nil || out.String() != "\x1b]0;x\x07\x9b" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

var styles = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// FuzzWriter checks that no text controls the terminal, and that the display does not
// depend on how the text is divided.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b[0m\x1b]0;t\x07\u009b2J\x9b\xe6\x97"), uint8(3))
	f.Add([]byte("\x1b[1\x1b[m\x1b\x1b]"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		got := display(t, text, int(size)+1)
		if whole := display(t, text, len(text)+1); got != whole {
			t.Fatalf("in pieces %q, whole %q", got, whole)
		}
		rest := styles.ReplaceAllString(got, "")
		if !utf8.ValidString(rest) {
			t.Fatalf("%q is not UTF-8", rest)
		}
		for _, r := range rest {
			if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q contains %U", rest, r)
			}
		}
	})
}

// Package terminal makes text of unknown origin safe to display on a terminal.
//
// The output of agents, names, and messages can contain control sequences, which set
// the window's title, move the cursor, or write the clipboard. A Writer passes colours
// and styles (CSI … m) on, and replaces every other control character by a visible
// notation: ^[ for ESC, \x9b for a byte that is not UTF-8, \u009b for a C1 character.
package terminal

import (
	"fmt"
	"io"
	"sync"
	"unicode/utf8"
)

// maxStyle is the maximum length of a sequence that sets colours or styles, in bytes.
const maxStyle = 64

const (
	escape = 0x1b
	del    = 0x7f
)

// Writer writes text to a terminal without control characters other than tabs, line
// ends, carriage returns, and sequences for colours and styles. An incomplete sequence
// or character at the end of the text is kept until the next Write or Flush. Writer is
// safe for concurrent use.
type Writer struct {
	out io.Writer
	raw *bool // pass everything on

	mu      sync.Mutex
	pending []byte // an incomplete sequence or character
	styled  bool   // the last sequence was not a reset
}

// NewWriter returns a Writer that writes to out. While *raw is true, it passes text on
// unchanged.
func NewWriter(out io.Writer, raw *bool) *Writer { return &Writer{out: out, raw: raw} }

// Write writes p. It returns len(p) unless writing fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *w.raw {
		return w.out.Write(p)
	}
	text := append(w.pending, p...)
	safe := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		n := w.next(text, &safe)
		if n == 0 {
			break
		}
		text = text[n:]
	}
	w.pending = append([]byte(nil), text...)
	if _, err := w.out.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes an incomplete sequence or character in visible notation, and ends colours
// and styles.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var safe []byte
	for _, b := range w.pending {
		safe = appendVisible(safe, b)
	}
	if w.styled {
		safe = append(safe, "\x1b[0m"...)
	}
	w.pending, w.styled = nil, false
	if len(safe) == 0 {
		return nil
	}
	_, err := w.out.Write(safe)
	return err
}

// next appends the safe form of the first character or sequence of text, and returns its
// length in text. It returns 0 if the character or sequence is incomplete.
func (w *Writer) next(text []byte, safe *[]byte) int {
	if text[0] == escape {
		n, complete := style(text)
		switch {
		case !complete && n > 0:
			return 0
		case complete:
			*safe = append(*safe, text[:n]...)
			w.styled = !isReset(text[:n])
			return n
		}
	}
	if text[0] < utf8.RuneSelf {
		*safe = appendVisible(*safe, text[0])
		return 1
	}
	if !utf8.FullRune(text) {
		return 0
	}
	r, n := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && n == 1:
		*safe = appendVisible(*safe, text[0])
	case r < 0xa0: // C1
		*safe = fmt.Appendf(*safe, `\u%04x`, r)
	default:
		*safe = append(*safe, text[:n]...)
	}
	return n
}

// style returns the length of the sequence for colours or styles at the beginning of
// text. If text ends before the sequence does, complete is false. If text begins with
// another sequence, n is 0.
func style(text []byte) (n int, complete bool) {
	if len(text) == 1 {
		return 1, false
	}
	if text[1] != '[' {
		return 0, false
	}
	for n = 2; n < min(len(text), maxStyle); n++ {
		switch b := text[n]; {
		case b == 'm':
			return n + 1, true
		case b != ';' && b != ':' && (b < '0' || b > '9'):
			return 0, false
		}
	}
	if n == maxStyle {
		return 0, false
	}
	return n, false
}

// isReset reports whether a sequence sets the default style.
func isReset(sequence []byte) bool {
	s := string(sequence)
	return s == "\x1b[m" || s == "\x1b[0m"
}

// appendVisible appends an ASCII character, or a byte that is not UTF-8. Control
// characters other than tabs, line ends, and carriage returns become visible.
func appendVisible(to []byte, b byte) []byte {
	switch {
	case b == '\n' || b == '\t' || b == '\r':
		return append(to, b)
	case b < ' ' || b == del:
		return append(to, '^', b^0x40)
	case b < utf8.RuneSelf:
		return append(to, b)
	}
	return fmt.Appendf(to, `\x%02x`, b)
}

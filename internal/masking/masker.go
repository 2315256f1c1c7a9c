package masking

import (
	"fmt"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// Mask is what stands where a secret was.
const Mask = "***"

// Limits of what a run may have masked. They bound the masker's memory: some
// 400 bytes for each byte of a token, 1.4 KB of a key in lines, and 4 KB at
// worst, of control characters.
const (
	MaxValues    = 256      // secrets
	MaxTotalSize = 32 << 10 // bytes of all secrets
	minLength    = 4        // characters; shorter values would mask half the text
	minLine      = 8        // characters of a line of a longer secret
)

// CheckLimits refuses more or larger secrets than a masker should hold; param
// is the request member that they came in.
func CheckLimits(param string, values []string) error {
	if len(values) > MaxValues {
		return stint.InvalidParam(param, "There are %d secrets; %d are allowed.", len(values), MaxValues)
	}
	total := 0
	for _, v := range values {
		total += len(v)
	}
	if total > MaxTotalSize {
		return stint.InvalidParam(param, "The secrets have %d bytes together; %d are allowed.", total, MaxTotalSize)
	}
	return nil
}

// Masker replaces a set of secrets. It is immutable and safe for concurrent
// use.
type Masker struct {
	automaton *automaton // nil when there is nothing to mask
}

// NewMasker masks values and their other spellings; see the package's
// description. Values of less than four characters are left alone. It takes
// what it gets: who takes secrets from strangers asks CheckLimits first.
func NewMasker(values []string) *Masker {
	patterns := spellings(values)
	if len(patterns) == 0 {
		return &Masker{}
	}
	return &Masker{automaton: compile(patterns)}
}

// Mask gives the whole text with secrets replaced.
func (m *Masker) Mask(text string) string {
	if spans := m.find(text); len(spans) > 0 {
		return string(replace([]byte(nil), text, spans))
	}
	return text
}

// MaskBytes does as Mask. It returns text itself where nothing is replaced.
func (m *Masker) MaskBytes(text []byte) []byte {
	if m.automaton == nil {
		return text
	}
	if _, spans := scan(m.automaton, 0, text, 0, nil); len(spans) > 0 {
		return replace(nil, text, spans)
	}
	return text
}

func (m *Masker) find(text string) []span {
	if m.automaton == nil {
		return nil
	}
	_, spans := scan(m.automaton, 0, text, 0, nil)
	return spans
}

// replace appends text to out with a mask for each span.
func replace[T string | []byte](out []byte, text T, spans []span) []byte {
	at := 0
	for _, s := range spans {
		out = append(out, text[at:s.start]...)
		out = append(out, Mask...)
		at = s.end
	}
	return append(out, text[at:]...)
}

// Format tells nothing, whatever the verb.
func (m *Masker) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("secret.Masker")) }

func longEnough(s string, characters int) bool { return utf8.RuneCountInString(s) >= characters }

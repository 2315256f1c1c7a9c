package masking

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// Mask is the text that replaces a secret.
const Mask = "***"

// Limits of the secrets of a run. They bound the memory of a masker, which needs about
// 400 bytes for each byte of a secret of one line, 1.4 KB for each byte of a secret of
// several lines, and at most 4 KB for each byte, if the secret consists of control
// characters.
const (
	MaxValues    = 256      // secrets
	MaxTotalSize = 32 << 10 // bytes of all secrets
	minLength    = 4        // characters, or bytes for a redactor
	minLine      = 8        // characters of a line that is replaced on its own, in a secret of several lines
	minBase64    = 8        // bytes for a redactor
)

// CheckLimits returns an error if values has more than MaxValues elements or more
// than MaxTotalSize bytes. The error names param, the request member with the secrets.
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

// Masker replaces the secrets of a set in text. It is immutable and safe for
// concurrent use.
type Masker struct {
	automaton    *automaton // nil if there is nothing to replace
	replacements []string   // replacement of each pattern; nil if all are Mask
}

// Secret is a value with its replacement.
type Secret struct{ Value, Replacement string }

// NewMasker returns a masker that replaces values and their encodings by ***;
// see the package's description. Values of less than four characters are not
// replaced. There are no limits: a caller with secrets from requests calls
// CheckLimits first.
func NewMasker(values []string) *Masker {
	patterns := maskPatterns(values)
	if len(patterns) == 0 {
		return &Masker{}
	}
	return &Masker{automaton: compile(patterns)}
}

// NewRedactor returns a masker that replaces each secret by its own replacement,
// which must not be empty. Secrets of less than four bytes are not replaced.
func NewRedactor(secrets []Secret) *Masker {
	patterns, replacements := redactPatterns(secrets)
	if len(patterns) == 0 {
		return &Masker{}
	}
	return &Masker{automaton: compile(patterns), replacements: replacements}
}

// Mask returns text with secrets replaced.
func (m *Masker) Mask(text string) string {
	if spans := find(m, text); len(spans) > 0 {
		return string(replace(m, text, spans))
	}
	return text
}

// MaskBytes is Mask for bytes. It returns text itself if nothing is replaced.
func (m *Masker) MaskBytes(text []byte) []byte {
	if spans := find(m, text); len(spans) > 0 {
		return replace(m, text, spans)
	}
	return text
}

// MaskError returns an error with the masked text of err, or err itself if
// nothing is replaced.
func (m *Masker) MaskError(err error) error {
	if text := m.Mask(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// Writer returns a writer that masks its input and writes the result to w. It
// retains the end of the input while the end may be the beginning of a secret.
// Close writes the retained text; it does not close w.
func (m *Masker) Writer(w io.Writer) io.WriteCloser {
	return &streamWriter{stream: m.Stream(), w: w}
}

func find[T string | []byte](m *Masker, text T) []span {
	if m.automaton == nil {
		return nil
	}
	_, spans := scan(m.automaton, 0, text, 0, nil, m.replacements == nil)
	return spans
}

// replace returns text with a replacement for each span.
func replace[T string | []byte](m *Masker, text T, spans []span) (out []byte) {
	at := 0
	for _, s := range spans {
		out = append(out, text[at:s.start]...)
		out = append(out, m.replacement(s)...)
		at = s.end
	}
	return append(out, text[at:]...)
}

func (m *Masker) replacement(s span) string {
	if m.replacements == nil {
		return Mask
	}
	return m.replacements[s.pattern]
}

// Format implements fmt.Formatter. It writes a fixed text for every verb, so that
// printing a Masker does not reveal its secrets.
func (m *Masker) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("masking.Masker")) }

func hasLength(s string, characters int) bool { return utf8.RuneCountInString(s) >= characters }

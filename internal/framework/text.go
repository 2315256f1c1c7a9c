package framework

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// maxPiece is the maximum length of the text of one event, in bytes.
const maxPiece = 32 << 10

// text is a decoder of plain text. Each call of Write returns all its bytes as
// events, except for an incomplete rune at their end.
type text struct {
	held map[string][]byte // incomplete rune at the end of each stream, at most 3 bytes
	// If wanted is true, the definition has an output schema, and final contains
	// the last maxFinal bytes of standard output.
	wanted bool
	final  []byte
}

// maxFinal is the number of bytes at the end of standard output that may contain
// the result.
const maxFinal = 256 << 10

func newText(in Input) *text { return &text{held: map[string][]byte{}, wanted: in.Schema != nil} }

func (t *text) Write(stream string, p []byte) Step {
	if t.wanted && stream == Stdout {
		t.final = append(t.final, p...)
		t.final = t.final[max(0, len(t.final)-maxFinal):]
	}
	if held := t.held[stream]; len(held) > 0 {
		p = append(held, p...)
	}
	whole := len(p) - partialRune(p)
	t.held[stream] = append([]byte(nil), p[whole:]...)
	return Step{Events: Pieces(stream, p[:whole])}
}

func (t *text) Flush(stream string) Step {
	rest := t.held[stream]
	t.held[stream] = nil
	return Step{Events: Pieces(stream, rest)}
}

func (t *text) Interrupt() []byte { return nil }

func (t *text) Verdict(exitCode int) Verdict {
	if exitCode == 0 {
		return Verdict{Completed: true, Final: t.value()}
	}
	return Verdict{Message: fmt.Sprintf("The agent's command ended with exit code %d.", exitCode)}
}

// value returns the kept standard output if it is one JSON value, or else its last
// line.
func (t *text) value() string {
	whole := bytes.TrimSpace(t.final)
	if json.Valid(whole) {
		return string(whole)
	}
	return string(bytes.TrimSpace(whole[bytes.LastIndexByte(whole, '\n')+1:]))
}

func (t *text) Conversation() Conversation { return Conversation{} }

// partialRune returns the number of bytes at the end of p that may be the start
// of an incomplete rune.
func partialRune(p []byte) int {
	for n := 1; n <= min(3, len(p)); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Pieces returns events with the text p, each with at most maxPiece bytes of it. It
// splits after a line end if possible. Invalid UTF-8 becomes U+FFFD.
func Pieces(stream string, p []byte) []stint.OutputData {
	var out []stint.OutputData
	for len(p) > 0 {
		n := len(p)
		if n > maxPiece {
			n = cutAt(p[:maxPiece])
		}
		out = append(out, stint.OutputData{Content: strings.ToValidUTF8(string(p[:n]), "\uFFFD"), Stream: stream})
		p = p[n:]
	}
	return out
}

func cutAt(p []byte) int {
	for i := len(p) - 1; i > len(p)/2; i-- {
		if p[i] == '\n' {
			return i + 1
		}
	}
	return len(p) - partialRune(p)
}

package modeltest

import (
	"fmt"
	"strings"
)

// Steps parses a prompt and returns its script as text: one line for each step, and a
// last line with the other values.
func Steps(prompt string) (string, error) {
	s, err := parse(prompt)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range s.steps {
		fmt.Fprintf(&b, "run=%q tool=%q args=%s think=%q sleep=%s cut=%t http=%d*%d\n", p.run, p.tool, p.args, p.think, p.sleep, p.cut, p.code, p.times)
	}
	if s.say != nil {
		fmt.Fprintf(&b, "say=%q ", *s.say)
	}
	fmt.Fprintf(&b, "slow=%d usage=%v", s.slow, s.usage)
	return b.String(), nil
}

// OwnText returns the part of a text that the user wrote, or "".
func OwnText(text string) string { return ownText(text) }

// Fill returns a generated object, as JSON, that has the required fields of a JSON Schema.
func Fill(form string) string { return string(readSchema([]byte(form)).fill(nil)) }

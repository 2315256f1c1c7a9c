package modeltest

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	maxSleep = 10 * time.Minute
	maxSlow  = 1000 // maximum number of pieces of a text
)

// script contains the directives of a prompt.
type script struct {
	steps []step  // not empty; the last step is the final answer
	say   *string // text of the final answer, nil if not given
	usage usage   // numbers of tokens that each response reports
	slow  int     // number of pieces of the final text, at least 1
}

// step describes one response of the model.
type step struct {
	run   string          // command for the client's shell tool, or ""
	tool  string          // name of the tool to call, or ""
	args  json.RawMessage // arguments of the tool, a JSON object
	think string          // reasoning before the response, or ""
	sleep time.Duration   // delay after the first event, or before a response that is not a stream
	cut   bool            // close the connection in the middle of the response
	code  int             // error status to refuse the request with, or 0
	times int             // number of requests to refuse with code; 0 means all
}

// usage counts tokens. in includes cacheRead and cacheWrite, and out includes
// reasoning.
type usage struct{ in, out, cacheRead, cacheWrite, reasoning int }

// directives contains a function for each directive, by name. The function applies the
// value of the directive to the script or to the next step.
var directives = map[string]func(s *script, next *step, value string) error{
	"run":   (*script).addRun,
	"tool":  (*script).addTool,
	"say":   func(s *script, _ *step, value string) error { s.say = &value; return nil },
	"think": func(_ *script, next *step, value string) error { next.think = value; return nil },
	"sleep": func(_ *script, next *step, value string) (err error) { next.sleep, err = seconds(value); return err },
	"http":  func(_ *script, next *step, value string) error { return next.refuse(value) },
	"cut":   func(_ *script, next *step, _ string) error { next.cut = true; return nil },
	"slow": func(s *script, _ *step, value string) (err error) {
		s.slow, err = number(value, 1, maxSlow)
		return err
	},
	"usage": func(s *script, _ *step, value string) error { return s.usage.read(value) },
}

// parse returns the script that the directives in a prompt describe. It ignores other
// text. If the value of a directive is invalid, it returns an error.
func parse(prompt string) (script, error) {
	s := script{usage: usage{in: 100, out: 20}, slow: 1}
	var next step
	for rest := prompt; ; {
		_, after, found := strings.Cut(rest, "[[")
		if !found {
			break
		}
		name, value, tail, ok := directive(after)
		if !ok {
			rest = after
			continue
		}
		if err := directives[name](&s, &next, value); err != nil {
			return script{}, fmt.Errorf("directive [[%s: %s]]: %w", name, value, err)
		}
		rest = tail
	}
	s.steps = append(s.steps, next)
	return s, nil
}

// directive splits the text after [[ into the name of a directive, its value, and the
// text after ]]. ok is false if the name is unknown or the directive is not closed.
func directive(text string) (name, value, tail string, ok bool) {
	n := strings.IndexFunc(text, func(r rune) bool { return r < 'a' || r > 'z' })
	if n < 0 || directives[text[:n]] == nil {
		return "", "", "", false
	}
	name, text = text[:n], text[n:]
	if tail, bare := strings.CutPrefix(text, "]]"); bare {
		return name, "", tail, true
	}
	text, ok = strings.CutPrefix(text, ":")
	if !ok {
		return "", "", "", false
	}
	end := closing(text)
	if end < 0 {
		return "", "", "", false
	}
	return name, strings.TrimSpace(text[:end]), text[end+2:], true
}

// closing returns the index of the ]] that ends the value at the start of text, or -1 if
// the value does not end. A value may contain JSON with any brackets, as described at
// jsonEnd. Other values may contain pairs of [[ and ]], such as conditions of Bash.
func closing(text string) int {
	if end := jsonEnd(text); end >= 0 {
		return end
	}
	depth := 1
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "[[":
			depth++
			i++
		case "]]":
			if depth > 1 {
				depth--
				i++
				continue
			}
			for i+2 < len(text) && text[i+2] == ']' {
				i++
			}
			return i
		}
	}
	return -1
}

// jsonEnd returns the index of the ]] after a value that consists of a JSON object or
// array, or of one word and a JSON object. It returns -1 for other values.
func jsonEnd(text string) int {
	start := len(text) - len(strings.TrimLeft(text, " \n\t"))
	if start == len(text) {
		return -1
	}
	if !strings.ContainsRune("{[", rune(text[start])) {
		word := strings.IndexAny(text[start:], " \n\t")
		if word < 0 {
			return -1
		}
		start += word
		start += len(text[start:]) - len(strings.TrimLeft(text[start:], " \n\t"))
		if start == len(text) || text[start] != '{' {
			return -1
		}
	}
	dec := json.NewDecoder(strings.NewReader(text[start:]))
	var v json.RawMessage
	if dec.Decode(&v) != nil {
		return -1
	}
	end := start + int(dec.InputOffset())
	end += len(text[end:]) - len(strings.TrimLeft(text[end:], " \n\t"))
	if !strings.HasPrefix(text[end:], "]]") {
		return -1
	}
	return end
}

func (s *script) addRun(next *step, value string) error {
	if value == "" {
		return fmt.Errorf("the command is missing")
	}
	next.run = value
	s.finish(next)
	return nil
}

func (s *script) addTool(next *step, value string) error {
	name, args, _ := strings.Cut(value, " ")
	if name == "" {
		return fmt.Errorf("the name of the tool is missing")
	}
	if args = strings.TrimSpace(args); args == "" {
		args = "{}"
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &object); err != nil || object == nil {
		return fmt.Errorf("the arguments must be a JSON object")
	}
	next.tool, next.args = name, json.RawMessage(args)
	s.finish(next)
	return nil
}

// finish appends next to the steps and clears it.
func (s *script) finish(next *step) {
	s.steps = append(s.steps, *next)
	*next = step{}
}

func (p *step) refuse(value string) (err error) {
	code, times, limited := strings.Cut(value, "*")
	if limited {
		if p.times, err = number(times, 1, math.MaxInt32); err != nil {
			return err
		}
	}
	p.code, err = number(code, 400, 599)
	return err
}

func (u *usage) read(value string) error {
	fields := map[string]*int{"in": &u.in, "out": &u.out, "cacheRead": &u.cacheRead, "cacheWrite": &u.cacheWrite, "reasoning": &u.reasoning}
	for pair := range strings.SplitSeq(value, ",") {
		name, count, _ := strings.Cut(strings.TrimSpace(pair), "=")
		field := fields[name]
		if field == nil {
			return fmt.Errorf("%q is not a counter", name)
		}
		var err error
		if *field, err = number(count, 0, math.MaxInt32); err != nil {
			return err
		}
	}
	if u.cacheRead+u.cacheWrite > u.in || u.reasoning > u.out {
		return fmt.Errorf("in must include cacheRead and cacheWrite, and out must include reasoning")
	}
	return nil
}

func number(text string, low, high int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, low, high)
	}
	return n, nil
}

func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n >= 0 && n <= maxSleep.Seconds()) {
		return 0, fmt.Errorf("%q is not a number of seconds from 0 to %g", text, maxSleep.Seconds())
	}
	return time.Duration(n * float64(time.Second)), nil
}

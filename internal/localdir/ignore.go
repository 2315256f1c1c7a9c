package localdir

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// IgnoreFile is the name of the files that exclude entries. Their syntax is that of
// .gitignore. An ignore file applies to the folder that contains it, and to all folders
// below.
const IgnoreFile = ".stintignore"

// maxIgnoreFile is the maximum size of an ignore file, in bytes.
const maxIgnoreFile = 1 << 20

// rule is one line of an ignore file.
type rule struct {
	keep    bool           // the line begins with '!'
	dirOnly bool           // the pattern ends with '/'
	pattern *regexp.Regexp // matches paths relative to the ignore file's folder
}

// Ignore decides which entries are excluded. The zero value excludes none.
type Ignore struct {
	rules map[string][]rule // rules by the path of the ignore file's folder, "." for the root
}

// Add parses the ignore file of the folder dir, which is slash-separated and
// relative to the root ("." for the root itself).
func (g *Ignore) Add(dir string, content []byte) error {
	var rules []rule
	in := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	in.Buffer(nil, maxIgnoreFile)
	for n := 1; in.Scan(); n++ {
		r, ok, err := parseRule(strings.TrimSuffix(in.Text(), "\r"))
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", path.Join(dir, IgnoreFile), n, err)
		}
		if ok {
			rules = append(rules, r)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: %w", path.Join(dir, IgnoreFile), err)
	}
	if g.rules == nil {
		g.rules = map[string][]rule{}
	}
	g.rules[dir] = rules
	return nil
}

// Ignores reports whether the entry with this path is excluded. The ignore file in the
// nearest parent folder with a matching line applies, and in this file the last
// matching line. The caller must not pass entries of excluded folders.
func (g *Ignore) Ignores(name string, isDir bool) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		rules := g.rules[dir]
		relative := name
		if dir != "." {
			relative = strings.TrimPrefix(name, dir+"/")
		}
		for _, r := range slices.Backward(rules) {
			if (isDir || !r.dirOnly) && r.pattern.MatchString(relative) {
				return !r.keep
			}
		}
		if dir == "." {
			return false
		}
	}
}

func parseRule(line string) (r rule, ok bool, err error) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return rule{}, false, nil
	}
	if line[0] == '!' {
		r.keep, line = true, line[1:]
	}
	if trimmed, cut := strings.CutSuffix(line, "/"); cut {
		r.dirOnly, line = true, trimmed
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return rule{}, false, nil
	}
	expression := translate(line)
	if !anchored {
		expression = "(?:.*/)?" + expression
	}
	r.pattern, err = regexp.Compile("(?s)^" + expression + "$")
	if err != nil {
		return rule{}, false, fmt.Errorf("'%s' is not a valid pattern", line)
	}
	return r, true, nil
}

// trimSpaces removes trailing spaces that are not escaped by a backslash.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// translate returns a regular expression for a pattern of an ignore file.
func translate(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); {
		rest := p[i:]
		switch {
		case rest == "**" && (i == 0 || p[i-1] == '/'):
			b.WriteString(".+")
			i += 2
		case strings.HasPrefix(rest, "**/") && (i == 0 || p[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 3
		case rest[0] == '*':
			b.WriteString("[^/]*")
			for i < len(p) && p[i] == '*' {
				i++
			}
		case rest[0] == '?':
			b.WriteString("[^/]")
			i++
		case rest[0] == '[':
			class, n := class(rest)
			b.WriteString(class)
			i += n
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	return b.String()
}

// class returns a regular expression for the bracket expression at the start of p, and
// the length of the bracket expression in p. If the closing bracket is missing, the
// opening bracket is a literal character.
func class(p string) (expression string, length int) {
	body := p[1:]
	negated := strings.HasPrefix(body, "!") || strings.HasPrefix(body, "^")
	if negated {
		body = body[1:]
	}
	end := -1
	for i := 0; i < len(body); i++ {
		if body[i] == '\\' {
			i++
		} else if body[i] == ']' && i > 0 {
			end = i
			break
		}
	}
	if end < 0 {
		return `\[`, 1
	}
	length = len(p) - len(body) + end + 1
	inner := strings.NewReplacer("[", `\[`, "^", `\^`, "&", `\&`).Replace(body[:end])
	if inner[0] == ']' {
		inner = `\` + inner
	}
	if negated {
		return "[^/" + inner + "]", length
	}
	return "[" + inner + "]", length
}

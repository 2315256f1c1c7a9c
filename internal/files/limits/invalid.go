package limits

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// Invalid returns the error for wrong input.
func Invalid(text string, args ...any) error {
	return stint.InvalidParam("", text, args...)
}

// TooLarge returns the error for input that exceeds a limit.
func TooLarge(text string, args ...any) error {
	return &stint.Error{Kind: stint.KindTooLarge, Code: stint.CodeRequestTooLarge, Message: fmt.Sprintf(text, args...)}
}

// Printable returns a path for a message: without control characters and of
// limited length.
func Printable(path string) string {
	const most = 200
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, path)
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// CleanPath checks the path of an entry and returns its clean form, "" for the top
// of the tree.
func (l *Limits) CleanPath(name string) (string, error) {
	switch {
	case strings.IndexByte(name, 0) >= 0:
		return "", Invalid("The name of entry '%s' holds a NUL byte.", Printable(name))
	case strings.HasPrefix(name, "/"):
		return "", Invalid("The path of entry '%s' is absolute; use paths relative to the tree.", Printable(name))
	}
	parts := make([]string, 0, 8)
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", Invalid("The path of entry '%s' leaves the tree by '..'.", Printable(name))
		case len(part) > maxName:
			return "", Invalid("The entry '%s' has a name of more than %d bytes.", Printable(name), maxName)
		}
		parts = append(parts, part)
	}
	path := strings.Join(parts, "/")
	return path, l.CheckPath(path, len(parts))
}

// CheckPath checks a clean path with that many elements against the limits.
func (l *Limits) CheckPath(path string, elements int) error {
	switch {
	case len(path) > l.PathBytes:
		return Invalid("The path of entry '%s' has more than %d bytes.", Printable(path), l.PathBytes)
	case elements > l.Depth:
		return Invalid("The entry '%s' is more than %d folders deep.", Printable(path), l.Depth)
	}
	return nil
}

// CheckTarget returns an error if a link at path may not have the target, which
// must stay in the tree. dots means that a ".." comes after a name; whether the
// target stays in the tree then depends on the kinds of the elements before it.
func (l *Limits) CheckTarget(path, target string) (dots bool, err error) {
	switch {
	case target == "":
		return false, Invalid("The link '%s' has no target.", Printable(path))
	case strings.IndexByte(target, 0) >= 0:
		return false, Invalid("The target of link '%s' holds a NUL byte.", Printable(path))
	case len(target) > l.PathBytes:
		return false, Invalid("The target of link '%s' has more than %d bytes.", Printable(path), l.PathBytes)
	case strings.HasPrefix(target, "/"):
		return false, Invalid("The link '%s' leaves the tree: its target '%s' is absolute.", Printable(path), Printable(target))
	}
	inside := WalkTarget(path, target, func([]string, int) bool {
		dots = true
		return true
	})
	if !inside {
		return false, Invalid("The link '%s' leaves the tree: its target is '%s'.", Printable(path), Printable(target))
	}
	return dots, nil
}

// WalkTarget follows the elements of a target from the link's folder and reports
// whether they stay in the tree. Before each ".." that comes after a name, it
// calls up with the path so far and stops if up returns false. The first known
// elements of the path were passed to up before, or are the link's own folder.
func WalkTarget(path, target string, up func(at []string, known int) bool) bool {
	at := strings.Split(path, "/")
	at = at[:len(at)-1]
	named, known := 0, len(at) // named counts the elements of at that come from the target
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			at = append(at, part)
			named++
		case len(at) == 0:
			return false
		default:
			if named > 0 {
				if !up(at, known) {
					return false
				}
				named--
			}
			at = at[:len(at)-1]
			known = len(at)
		}
	}
	return true
}

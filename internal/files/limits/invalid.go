package limits

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
)

// Invalid returns the error for invalid input.
func Invalid(text string, args ...any) error {
	return stint.InvalidParam("", text, args...)
}

// TooLarge returns the error for input that exceeds a limit.
func TooLarge(text string, args ...any) error {
	return &stint.Error{Kind: stint.KindTooLarge, Code: stint.CodeRequestTooLarge, Message: fmt.Sprintf(text, args...)}
}

// Printable returns a path for use in a message: control characters and invalid UTF-8
// are replaced by question marks, and long paths are shortened.
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

// CleanPath checks the path of an entry and returns its clean form, which is "" for
// the top of the tree.
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

// CheckPath checks a clean path against the limits. elements is the number of its
// elements.
func (l *Limits) CheckPath(path string, elements int) error {
	switch {
	case len(path) > l.PathBytes:
		return Invalid("The path of entry '%s' has more than %d bytes.", Printable(path), l.PathBytes)
	case elements > l.Depth:
		return Invalid("The entry '%s' is more than %d folders deep.", Printable(path), l.Depth)
	}
	return nil
}

// CheckTarget returns an error unless target is a valid target, inside the tree, of a
// link at path. dots reports whether the target has a ".." after a name. Then the
// target only stays in the tree if the elements before the ".." are not links, which
// CheckTarget does not check.
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

// WalkTarget follows the elements of the target of a link at path, beginning in the
// link's folder, and reports whether they stay in the tree. Before each ".." that
// comes after a name of the target, it calls up with the path reached so far. If up
// returns false, WalkTarget returns false. The first known elements of at were passed
// to up before or belong to the link's folder.
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

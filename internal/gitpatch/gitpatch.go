// Package gitpatch writes the differences between two folders as a patch that git apply
// accepts.
package gitpatch

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git identifies content by SHA-1
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// The modes of files in git.
const (
	ModeFile       = "100644"
	ModeExecutable = "100755"
	ModeLink       = "120000"
)

// maxText is the size in bytes above which a file is not compared line by line. A patch
// then contains its whole content, as for a binary file.
const maxText = 1 << 20

// binaryProbe is the number of bytes at the start of a file in which a NUL byte means that
// the file is binary, as in git.
const binaryProbe = 8000

// File is one side of a change. The content of a link is its target.
type File struct {
	Path    string
	Mode    string
	Content []byte
}

// Write writes the change from old to new, or nothing if they are equal for git. A nil file
// does not exist. If the paths differ, the file was renamed. If one of the two is a link and
// the other is not, old is deleted and new is created.
func Write(w io.Writer, old, new *File) error {
	if old != nil && new != nil && (old.Mode == ModeLink) != (new.Mode == ModeLink) {
		if err := Write(w, old, nil); err != nil {
			return err
		}
		return Write(w, nil, new)
	}
	p := patch{old: old, new: new}
	text, err := p.text()
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// patch is a change of one file.
type patch struct {
	old, new *File
	b        strings.Builder
}

func (p *patch) text() (string, error) {
	oldContent, newContent := content(p.old), content(p.new)
	same := p.old != nil && p.new != nil && bytes.Equal(oldContent, newContent)
	from, to := p.old, p.new
	if from == nil {
		from = to
	}
	if to == nil {
		to = from
	}
	if same && from.Path == to.Path && from.Mode == to.Mode {
		return "", nil
	}
	p.line("diff --git %s %s", quote("a/"+from.Path), quote("b/"+to.Path))
	p.header()
	if same {
		return p.b.String(), nil
	}
	mode := ""
	if p.old != nil && p.new != nil && p.old.Mode == p.new.Mode {
		mode = " " + p.new.Mode
	}
	p.line("index %s..%s%s", blobID(p.old), blobID(p.new), mode)
	if isBinary(oldContent) || isBinary(newContent) {
		p.binary(oldContent, newContent)
		return p.b.String(), nil
	}
	if len(oldContent) == 0 && len(newContent) == 0 {
		return p.b.String(), nil // an empty file was created or deleted
	}
	a, b := "/dev/null", "/dev/null"
	if p.old != nil {
		a = quote("a/" + p.old.Path)
	}
	if p.new != nil {
		b = quote("b/" + p.new.Path)
	}
	before, after := string(oldContent), string(newContent)
	lines, err := udiff.ToUnified(a, b, before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil {
		return "", fmt.Errorf("compare %q: %w", to.Path, err)
	}
	p.b.WriteString(lines)
	return p.b.String(), nil
}

// header writes the lines about modes and names.
func (p *patch) header() {
	switch {
	case p.old == nil:
		p.line("new file mode %s", p.new.Mode)
	case p.new == nil:
		p.line("deleted file mode %s", p.old.Mode)
	case p.old.Mode != p.new.Mode:
		p.line("old mode %s", p.old.Mode)
		p.line("new mode %s", p.new.Mode)
	}
	if p.old != nil && p.new != nil && p.old.Path != p.new.Path {
		p.line("rename from %s", quote(p.old.Path))
		p.line("rename to %s", quote(p.new.Path))
	}
}

func (p *patch) line(form string, args ...any) { fmt.Fprintf(&p.b, form+"\n", args...) }

func content(f *File) []byte {
	if f == nil {
		return nil
	}
	return f.Content
}

func isBinary(b []byte) bool {
	return len(b) > maxText || bytes.IndexByte(b[:min(len(b), binaryProbe)], 0) >= 0
}

// blobID returns git's identifier of a file's content; all zeros if the file does not
// exist.
func blobID(f *File) string {
	if f == nil {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New() //nolint:gosec // see above
	fmt.Fprintf(h, "blob %d\x00", len(f.Content))
	h.Write(f.Content)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// quote returns a name in quotes, with escapes for bytes that are not plain letters. Git
// reads the boundaries of names without quotes from spaces, so it quotes spaces too.
func quote(name string) string {
	plain := func(r rune) bool { return r > ' ' && r != 0x7f && r != '"' && r != '\\' && r != '\uFFFD' }
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

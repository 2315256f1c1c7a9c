package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/limits"
	"github.com/stint-dev/stint/internal/files/pack"
)

const (
	// maxDiffText bounds the size of each compared file in bytes.
	maxDiffText = 1 << 20
	// binaryProbe is the number of bytes at the start of a file in which a NUL byte
	// means that the file is binary.
	binaryProbe = 8000
)

// TextDiff compares the file at path in two trees and returns a unified diff with
// three lines of context, or "" if both are equal. Links are compared by their
// targets; for binary files, the result only states that they differ. The error is
// NotFound if neither tree has the path, Invalid for a folder or a file of more than
// 1 MiB, and Unavailable if too many comparisons are waiting. The digest "" stands
// for the empty tree.
func (d *Differ) TextDiff(ctx context.Context, org, from, to, path string) (string, error) {
	old, err := d.lines(ctx, org, from, path)
	if err != nil {
		return "", err
	}
	new, err := d.lines(ctx, org, to, path)
	if err != nil {
		return "", err
	}
	switch {
	case old == nil && new == nil:
		return "", stint.NotFound("file", path)
	case old != nil && new != nil && bytes.Equal(old, new):
		return "", nil
	}
	a, b := diffLabel("a/", path, old), diffLabel("b/", path, new)
	if isBinary(old) || isBinary(new) {
		return fmt.Sprintf("Binary files %s and %s differ\n", a, b), nil
	}
	if len(old) == 0 && len(new) == 0 {
		return fmt.Sprintf("--- %s\n+++ %s\n", a, b), nil // an empty file was added or removed
	}
	done, ok := d.Comparing.Acquire(ctx, org)
	switch {
	case !ok && ctx.Err() != nil:
		return "", context.Cause(ctx)
	case !ok:
		return "", &stint.Error{
			Kind: stint.KindUnavailable, Code: stint.CodeUnavailable,
			Message: "Too many files are being compared at once. Ask for fewer comparisons at a time, or try again in a moment.",
		}
	}
	defer done()
	text, err := udiff.ToUnified(a, b, string(old), udiff.Lines(string(old), string(new)), udiff.DefaultContextLines)
	if err != nil {
		return "", fmt.Errorf("comparing %q: %w", path, err)
	}
	return text, nil
}

// lines returns the content of the file at path, or the target of the link at path.
// If the tree lacks the path, lines returns nil.
func (d *Differ) lines(ctx context.Context, org, digest, path string) ([]byte, error) {
	if digest == "" {
		return nil, pack.CheckOrg(org)
	}
	m, err := d.manifests.Open(ctx, org, digest)
	if err != nil {
		return nil, err
	}
	e, err := m.Find(ctx, path)
	switch {
	case err != nil || e == nil:
		return nil, err
	case e.Kind == format.Symlink:
		return []byte(e.Target), nil
	case e.Kind == format.Folder:
		return nil, stint.InvalidParam("path", "'%s' is a folder. Compare the files in it one by one.", limits.Printable(path))
	case e.Size > maxDiffText:
		return nil, stint.InvalidParam("path", "'%s' is too large to be compared line by line: it has %d bytes, more than %d.", limits.Printable(path), e.Size, maxDiffText)
	}
	f := m.OpenFile(ctx, e)
	text := make([]byte, e.Size)
	_, err = io.ReadFull(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("comparing %q: %w", path, err)
	}
	return text, nil
}

func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), binaryProbe)], 0) >= 0 }

// diffLabel returns the name of a side of a diff, quoted as git and patch expect. If
// content is nil, the file does not exist on this side.
func diffLabel(prefix, path string, content []byte) string {
	if content == nil {
		return "/dev/null"
	}
	name := prefix + path
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' }) < 0 {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

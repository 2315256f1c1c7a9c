package assistant

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/llm"
)

const (
	maxReadLines = 2000
	maxReadBytes = 30 << 10
	maxLineShown = 2000     // bytes of one line
	maxEdited    = 16 << 20 // bytes of a file that can be edited
)

func (b *toolbox) read() tool {
	return tool{
		Tool: llm.Tool{
			Name:        "read",
			Description: "Returns the text of a file, at most 2000 lines or 30 KiB, and says where to continue.",
			Schema: object(1,
				[3]string{"path", "string", "of the file"},
				[3]string{"offset", "integer", "number of the first line to return; default 1"},
				[3]string{"limit", "integer", "maximum number of lines"}),
		},
		run: typed(func(_ context.Context, in struct {
			Path          string
			Offset, Limit int
		},
		) outcome {
			return b.readFile(in.Path, max(in.Offset, 1), in.Limit)
		}),
	}
}

func (b *toolbox) readFile(name string, first, limit int) outcome {
	if o := plainFile(name, b.path(name)); o.failed {
		return o
	}
	f, err := os.Open(b.path(name))
	if err != nil {
		return failed("%v", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	if start, _ := in.Peek(1024); bytes.IndexByte(start, 0) >= 0 {
		return failed("%s is not a text file.", name)
	}
	if limit <= 0 || limit > maxReadLines {
		limit = maxReadLines
	}
	return shownLines(in, first, limit)
}

// plainFile returns a failed outcome if path is a directory, a pipe, or a device.
// Opening a pipe can block, and reading a device may never end.
func plainFile(name, path string) outcome {
	switch info, err := os.Stat(path); {
	case err != nil:
		return outcome{} // the caller opens the file and reports that error
	case info.IsDir():
		return failed("%s is a folder; use list.", name)
	case !info.Mode().IsRegular():
		return failed("%s is not a file but a pipe or a device; use bash.", name)
	}
	return outcome{}
}

// shownLines returns at most limit lines and maxReadBytes bytes of a text, starting at
// line first (counted from 1). If lines follow, the last line of the result says so.
func shownLines(in *bufio.Reader, first, limit int) outcome {
	var out strings.Builder
	for number := 1; ; number++ {
		line, err := boundedLine(in)
		if line == "" && err != nil {
			if number <= first && number > 1 {
				return failed("The file has only %d lines.", number-1)
			}
			return outcome{text: out.String()}
		}
		if number < first {
			continue
		}
		if number >= first+limit || out.Len()+len(line) > maxReadBytes {
			fmt.Fprintf(&out, "(more lines follow, from line %d)", number)
			return outcome{text: out.String(), truncated: true}
		}
		out.WriteString(line)
	}
}

// boundedLine reads a line and returns at most maxLineShown bytes of it, followed by a
// note if the line is longer.
func boundedLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		if room := maxLineShown - len(line); room > 0 {
			line = append(line, piece[:min(room, len(piece))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) == maxLineShown && line[maxLineShown-1] != '\n' {
			line = append(line, "… (the line is cut here)\n"...)
		}
		return string(line), err
	}
}

func (b *toolbox) write() tool {
	return tool{
		Tool: llm.Tool{
			Name:        "write",
			Description: "Writes a file and replaces its content. Missing folders are created.",
			Schema: object(2,
				[3]string{"path", "string", "of the file"},
				[3]string{"content", "string", "the complete new content"}),
		},
		run: typed(func(_ context.Context, in struct{ Path, Content string }) outcome {
			name := b.path(in.Path)
			if o := plainFile(in.Path, name); o.failed {
				return o
			}
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return failed("%v", err)
			}
			if err := os.WriteFile(name, []byte(in.Content), 0o644); err != nil {
				return failed("%v", err)
			}
			return outcome{text: fmt.Sprintf("Wrote %d bytes to %s.", len(in.Content), in.Path)}
		}),
	}
}

func (b *toolbox) edit() tool {
	return tool{
		Tool: llm.Tool{
			Name:        "edit",
			Description: "Replaces a text in a file by another. The old text must occur in the file exactly once, as given.",
			Schema: object(3,
				[3]string{"path", "string", "of the file"},
				[3]string{"old", "string", "the text to replace, with enough context to occur only once"},
				[3]string{"new", "string", "the replacement"},
				[3]string{"all", "boolean", "replace every occurrence"}),
		},
		run: typed(func(_ context.Context, in struct {
			Path, Old, New string
			All            bool
		},
		) outcome {
			return b.replace(in.Path, in.Old, in.New, in.All)
		}),
	}
}

func (b *toolbox) replace(name, old, with string, all bool) outcome {
	if old == "" {
		return failed("The old text is empty; use write for a new file.")
	}
	if o := plainFile(name, b.path(name)); o.failed {
		return o
	}
	f, err := os.OpenFile(b.path(name), os.O_RDWR, 0)
	if err != nil {
		return failed("%v", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxEdited+1))
	switch n := bytes.Count(content, []byte(old)); {
	case err != nil:
		return failed("%v", err)
	case len(content) > maxEdited:
		return failed("%s is too large to edit; use bash.", name)
	case n == 0:
		return failed("The old text is not in %s. Read the file again.", name)
	case n > 1 && !all:
		return failed("The old text occurs in %s %d times. Include more context, or set all.", name, n)
	default:
		content = bytes.ReplaceAll(content, []byte(old), []byte(with))
		if _, err = f.WriteAt(content, 0); err == nil {
			err = f.Truncate(int64(len(content)))
		}
		if err != nil {
			return failed("%v", err)
		}
		return outcome{text: fmt.Sprintf("Replaced %s in %s.", counted(int64(n), "occurrence"), name)}
	}
}

package assistant

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stint-dev/stint/internal/llm"
)

const (
	maxListed   = 1000     // entries in a listing
	maxDepth    = 10       // levels of a listing
	maxMatches  = 200      // lines in a search result
	maxSearched = 8 << 20  // size of a file in bytes up to which it is searched
	maxShown    = 300      // bytes shown of a matching line
	maxFound    = 30 << 10 // bytes of a search result after which the search ends
)

// errLimit ends the walk of a folder that has reached a limit.
var errLimit = errors.New("limit reached")

func (b *toolbox) listing() tool {
	return tool{
		Tool: llm.Tool{
			Name:        "list",
			Description: "Lists a folder: folders with a slash after their names, files with their sizes in bytes; 1000 entries at most.",
			Schema: object(0,
				[3]string{"path", "string", "of the folder; default: the working directory"},
				[3]string{"depth", "integer", "levels of folders to list; default 1, at most 10"}),
		},
		run: typed(func(ctx context.Context, in struct {
			Path  string
			Depth int
		},
		) outcome {
			root, err := filepath.EvalSymlinks(b.path(in.Path)) // WalkDir does not follow a link at its root
			if err != nil {
				return failed("%v", err)
			}
			if info, err := os.Stat(root); err == nil && !info.IsDir() {
				return failed("%s is not a folder; use read.", in.Path)
			}
			return listFolder(ctx, root, min(max(in.Depth, 1), maxDepth))
		}),
	}
}

func listFolder(ctx context.Context, root string, depth int) outcome {
	var o outcome
	var out strings.Builder
	count := 0
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if name == root {
			return err
		}
		if count == maxListed {
			o.truncated = true
			return errLimit
		}
		count++
		rel, _ := filepath.Rel(root, name) // name is below root
		out.WriteString(rel + sizeOf(e) + "\n")
		if e.IsDir() && (err != nil || strings.Count(rel, "/")+1 >= depth) {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil && !errors.Is(err, errLimit) {
		return failed("%v", err)
	}
	if o.truncated {
		fmt.Fprintf(&out, "(there are more than %d entries)", maxListed)
	}
	if o.text = out.String(); o.text == "" {
		o.text = "(empty)"
	}
	return o
}

func sizeOf(e fs.DirEntry) string {
	switch info, err := e.Info(); {
	case e.IsDir():
		return "/"
	case err != nil:
		return ""
	case e.Type()&fs.ModeSymlink != 0:
		return "  (link)"
	default:
		return fmt.Sprintf("  %d", info.Size())
	}
}

func (b *toolbox) search() tool {
	return tool{
		Tool: llm.Tool{
			Name:        "search",
			Description: "Searches the lines of text files for a regular expression (RE2) and returns file, line number, and line; at most 200 lines. Folders named .git and node_modules are left out.",
			Schema: object(1,
				[3]string{"pattern", "string", "a regular expression; (?i) at its beginning ignores case"},
				[3]string{"path", "string", "of a folder or file; default: the working directory"},
				[3]string{"glob", "string", "only files whose name is like this, such as *.go"}),
		},
		run: typed(func(ctx context.Context, in struct{ Pattern, Path, Glob string }) outcome {
			re, err := regexp.Compile(in.Pattern)
			if err != nil {
				return failed("The pattern is not a regular expression: %v.", err)
			}
			if _, err := filepath.Match(in.Glob, ""); err != nil {
				return failed("The glob cannot be read: %v.", err)
			}
			root, err := filepath.EvalSymlinks(b.path(in.Path))
			if err != nil {
				return failed("%v", err)
			}
			s := &searching{re: re, glob: in.Glob, root: root}
			return s.walk(ctx)
		}),
	}
}

type searching struct {
	re      *regexp.Regexp
	glob    string
	root    string
	out     strings.Builder
	matches int
}

func (s *searching) walk(ctx context.Context) outcome {
	err := filepath.WalkDir(s.root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == s.root:
			return err
		case err != nil:
			return nil // skip unreadable files
		case e.IsDir() && name != s.root && (e.Name() == ".git" || e.Name() == "node_modules"):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		if s.glob != "" {
			if ok, _ := filepath.Match(s.glob, e.Name()); !ok { // the pattern is valid
				return nil
			}
		}
		return s.file(name)
	})
	switch {
	case errors.Is(err, errLimit):
		return outcome{text: s.out.String() + "(there are more matches)", truncated: true}
	case err != nil:
		return failed("%v", err)
	case s.matches == 0:
		return outcome{text: "(no match)"}
	}
	return outcome{text: s.out.String()}
}

// file searches one file. It skips files that are binary, unreadable, or larger than
// maxSearched. It returns errLimit if there is a match after the result reached its limit.
func (s *searching) file(name string) error {
	info, err := os.Stat(name)
	if err != nil || info.Size() > maxSearched {
		return nil
	}
	content, err := os.ReadFile(name)
	if err != nil || bytes.IndexByte(content[:min(1024, len(content))], 0) >= 0 {
		return nil
	}
	shown, _ := filepath.Rel(s.root, name) // name is below root
	if shown == "." {
		shown = filepath.Base(name)
	}
	in := bufio.NewScanner(bytes.NewReader(content))
	in.Buffer(nil, maxSearched+1)
	for number := 1; in.Scan(); number++ {
		if !s.re.Match(in.Bytes()) {
			continue
		}
		if s.matches == maxMatches || s.out.Len() > maxFound {
			return errLimit
		}
		s.matches++
		line := in.Bytes()
		fmt.Fprintf(&s.out, "%s:%d: %s\n", shown, number, line[:min(len(line), maxShown)])
	}
	return nil
}

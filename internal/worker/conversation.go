package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
)

// conversationFile is the record of a framework's conversation, in the home
// folder as it is stored. Agents never see it.
const conversationFile = ".stint-conversation.json"

// Bounds of what is looked at of a conversation before a run.
const (
	maxRecord  = 1 << 20        // bytes of the record
	maxChecked = 64 << 20       // bytes of a file that the framework reads back, and
	maxReading = 4 * maxChecked // of all of them
	maxKept    = 4 << 10        // files and folders whose state is remembered
)

// resume takes the record of the conversation that the run goes on with out of
// its home folder; nil begins a new one.
func (j *job) resume() (*framework.Conversation, error) {
	root, err := os.OpenRoot(j.place.Home)
	if err != nil {
		return nil, fmt.Errorf("open home: %w", err)
	}
	defer root.Close()
	b, err := readFile(root, conversationFile, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	var c framework.Conversation
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, unreadable(conversationFile, err)
	}
	if err := root.Remove(conversationFile); err != nil {
		return nil, fmt.Errorf("take conversation: %w", err)
	}
	j.kept.before = c
	if c.Framework != j.a.Plan.Definition.Framework {
		return nil, nil // another framework's means nothing to this one
	}
	if c.Version != "" && j.program.Version != "" && c.Version != j.program.Version {
		j.record.system("warn", fmt.Sprintf("The session was left by version %s of %s and goes on with %s.", c.Version, c.Framework, j.program.Version), nil)
	}
	return &c, nil
}

// readFile reads a plain file of at most limit bytes.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", name, limit)
	}
	return root.ReadFile(name)
}

func unreadable(name string, what error) error {
	return stint.InvalidState("The conversation of this session cannot be read: %s, %s. Resume an earlier checkpoint (stint resume CHECKPOINT PROMPT) or start anew.",
		name, strings.TrimSuffix(what.Error(), "."))
}

// kept is what is known of the files that the run's conversation began with.
type kept struct {
	before framework.Conversation // its record; zero for none
	files  map[string]trace       // nil: not known
}

// checkConversation has the framework read the files back that the run goes on
// with, and remembers them.
func (j *job) checkConversation(resumed bool) error {
	state := newSelection(j.plan.State)
	if j.a.Plan.Home == "" {
		return nil
	}
	root, err := os.OpenRoot(j.place.Home)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	defer root.Close()
	if !state.all() {
		j.kept.files = state.traces(root)
	}
	if !resumed || j.plan.State.Check == nil {
		return nil
	}
	left := int64(maxReading)
	return state.walk(root, func(name string, info fs.FileInfo) error {
		if j.ctx.Err() != nil {
			return j.ctx.Err()
		}
		if !info.Mode().IsRegular() || info.Size() > min(maxChecked, left) {
			return nil
		}
		left -= info.Size()
		b, err := readFile(root, name, maxChecked)
		if err == nil {
			err = j.plan.State.Check(name, b)
		}
		if err != nil {
			return unreadable(name, err)
		}
		return nil
	})
}

// unchanged tells that the conversation is the one that the run began with.
func (j *job) unchanged(now framework.Conversation) bool {
	if j.kept.files == nil || now != j.kept.before {
		return false
	}
	root, err := os.OpenRoot(j.place.Home)
	if err != nil {
		return false
	}
	defer root.Close()
	return maps.Equal(j.kept.files, newSelection(j.plan.State).traces(root))
}

// conversation is what the record says at the end. A run whose agent never got
// to its own leaves the one that it began with.
func (j *job) conversation() framework.Conversation {
	c := j.record.conversation()
	switch {
	case c != (framework.Conversation{}):
		c.Framework, c.Version = j.a.Plan.Definition.Framework, j.program.Version
	case j.kept.before.Framework == j.a.Plan.Definition.Framework:
		c = j.kept.before
	}
	return c
}

// putRecord writes the record of the conversation into the home folder, where
// nothing of the agent's is left under that name. No process of the run lives.
func (j *job) putRecord(c framework.Conversation) error {
	if err := sandbox.Remove(filepath.Join(j.place.Home, conversationFile)); err != nil {
		return fmt.Errorf("clear the place of the conversation's record: %w", err)
	}
	if c == (framework.Conversation{}) {
		return nil
	}
	root, err := os.OpenRoot(j.place.Home)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	defer root.Close()
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode conversation: %w", err)
	}
	if err := root.WriteFile(conversationFile, b, 0o600); err != nil {
		return fmt.Errorf("write conversation: %w", err)
	}
	// The same conversation is the same tree, whenever it is stored.
	if err := root.Chtimes(conversationFile, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		return fmt.Errorf("date conversation: %w", err)
	}
	return nil
}

// selection says which files below the home folder are the conversation.
type selection struct{ keep, drop [][]string }

func newSelection(s framework.State) selection {
	split := func(patterns []string) (out [][]string) {
		for _, p := range patterns {
			out = append(out, strings.Split(path.Clean(p), "/"))
		}
		return out
	}
	return selection{split(s.Keep), split(s.Drop)}
}

// all tells that everything is.
func (s selection) all() bool { return len(s.keep) == 0 && len(s.drop) == 0 }

// holds tells whether the file or folder at a path is.
func (s selection) holds(name string) bool {
	within := func(pattern []string) bool { return prefixes(pattern, strings.Split(name, "/")) }
	return (len(s.keep) == 0 || slices.ContainsFunc(s.keep, within)) && !slices.ContainsFunc(s.drop, within)
}

// leads tells whether the folder at a path is on the way to what is.
func (s selection) leads(name string) bool {
	elements := strings.Split(name, "/")
	within := func(pattern []string) bool { return prefixes(pattern, elements) }
	return !slices.ContainsFunc(s.drop, within) && slices.ContainsFunc(s.keep, func(pattern []string) bool {
		return len(pattern) > len(elements) && prefixes(pattern[:len(elements)], elements)
	})
}

// prefixes tells whether the elements begin as the patterns say.
func prefixes(patterns, elements []string) bool {
	if len(patterns) > len(elements) {
		return false
	}
	for i, p := range patterns {
		if ok, err := path.Match(p, elements[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// options store what is selected, and the record.
func (s selection) options() files.DirOptions {
	o := files.DirOptions{Confidential: true}
	if s.all() {
		return o
	}
	o.Verify = true
	o.Ignore = func(name string, isDir bool) bool {
		return name != conversationFile && !s.holds(name) && (!isDir || !s.leads(name))
	}
	o.KeepParents = func(name string) bool { return !s.holds(name) }
	return o
}

// traces remembers what is selected; nil where it cannot, or where that is much.
func (s selection) traces(root *os.Root) map[string]trace {
	traces := map[string]trace{}
	err := s.walk(root, func(name string, info fs.FileInfo) error {
		t, ok := traceOf(info)
		if !ok || len(traces) == maxKept {
			return errUntraced
		}
		traces[name] = t
		return nil
	})
	if err != nil {
		return nil
	}
	return traces
}

var errUntraced = errors.New("files that are not remembered")

// walk visits what is selected, folders before what lies in them. The record is
// none of it.
func (s selection) walk(root *os.Root, visit func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case name == "." || name == conversationFile:
			return nil
		case !s.holds(name) && d.IsDir() && !s.leads(name):
			return fs.SkipDir
		case !s.holds(name):
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		return visit(name, info)
	})
}

package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox"
)

// conversationFile is the record of a framework's conversation in the stored
// home folder. Agents never see it.
const conversationFile = ".stint-conversation.json"

// Limits of the files of a conversation that are read before a run.
const (
	maxRecord      = 1 << 20            // bytes of the record
	maxCheckedFile = 64 << 20           // bytes of a file that the framework checks
	maxChecked     = 4 * maxCheckedFile // bytes of all of them
)

// resume removes the record of the conversation from the home folder and returns
// it. It returns nil for a new conversation, and for one of another framework.
func (s *state) resume() (*framework.Conversation, error) {
	root, err := os.OpenRoot(s.dirs.Home)
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
		return nil, fmt.Errorf("remove conversation: %w", err)
	}
	s.previous = c
	if c.Framework != s.framework() {
		return nil, nil
	}
	if c.Version != "" && s.cli.Version != "" && c.Version != s.cli.Version {
		s.output.System("warn", fmt.Sprintf("The session was stored with version %s of %s and continues with %s.", c.Version, c.Framework, s.cli.Version), nil)
	}
	return &c, nil
}

// readFile reads a regular file of at most limit bytes.
func readFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, limit)
	}
	return root.ReadFile(name)
}

func unreadable(name string, reason error) error {
	return stint.InvalidState("The conversation of this session cannot be read: %s, %s. Resume an earlier checkpoint (stint resume CHECKPOINT PROMPT) or start anew.",
		name, strings.TrimSuffix(reason.Error(), "."))
}

// checkConversation calls the framework's check for each file of a resumed
// conversation. It skips files above the limits.
func (s *state) checkConversation(ctx context.Context, resumed bool) error {
	if !resumed || s.a.Plan.Home == "" || s.plan.State.Check == nil {
		return nil
	}
	root, err := os.OpenRoot(s.dirs.Home)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	defer root.Close()
	left := int64(maxChecked)
	return newHomeFiles(s.plan.State).walk(root, func(name string, info fs.FileInfo) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !info.Mode().IsRegular() || info.Size() > min(maxCheckedFile, left) {
			return nil
		}
		left -= info.Size()
		b, err := readFile(root, name, maxCheckedFile)
		if err == nil {
			err = s.plan.State.Check(name, b)
		}
		if err != nil {
			return unreadable(name, err)
		}
		return nil
	})
}

// conversation returns the record of the conversation at the end of the run. If the
// agent did not begin a conversation, it returns the record of the previous run, or the
// zero value if that run had another framework.
func (s *state) conversation() framework.Conversation {
	c := s.output.Conversation()
	switch {
	case c != (framework.Conversation{}):
		c.Framework, c.Version = s.framework(), s.cli.Version
	case s.previous.Framework == s.framework():
		c = s.previous
	}
	return c
}

// writeConversation writes the record into the home folder, unless the record is the zero
// value. It first removes any file with the record's name that the agent left. All
// processes of the run must have ended.
func (s *state) writeConversation(c framework.Conversation) error {
	if err := sandbox.Remove(filepath.Join(s.dirs.Home, conversationFile)); err != nil {
		return fmt.Errorf("remove the agent's file at the conversation's path: %w", err)
	}
	if c == (framework.Conversation{}) {
		return nil
	}
	root, err := os.OpenRoot(s.dirs.Home)
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
	// With a fixed time, equal conversations give equal snapshots.
	if err := root.Chtimes(conversationFile, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		return fmt.Errorf("set the time of the conversation: %w", err)
	}
	return nil
}

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stint-dev/stint/internal/framework"
)

// conversationFile is the record of a framework's conversation, in the home
// folder as it is stored. Agents never see it.
const conversationFile = ".stint-conversation.json"

// resume takes the record of the conversation that the run goes on with out of
// its home folder; nil begins a new one.
func (j *job) resume() (*framework.Conversation, error) {
	root, err := os.OpenRoot(j.place.Home)
	if err != nil {
		return nil, fmt.Errorf("open home: %w", err)
	}
	defer root.Close()
	b, err := root.ReadFile(conversationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read conversation: %w", err)
	}
	var c framework.Conversation
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("decode conversation: %w", err)
	}
	if err := root.Remove(conversationFile); err != nil {
		return nil, fmt.Errorf("take conversation: %w", err)
	}
	if c.Framework != j.a.Spec.Definition.Framework {
		return nil, nil // another framework's means nothing to this one
	}
	return &c, nil
}

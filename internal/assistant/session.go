package assistant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/llm"
)

// maxSession is the longest conversation that is read, in bytes.
const maxSession = 1 << 30

// The types of records. The first of a file is recordSession, and no other.
const (
	recordSession    = "session"
	recordPrompt     = "prompt"     // what the user asked
	recordNote       = "note"       // what the assistant itself told the model
	recordAnswer     = "answer"     // what the model said
	recordResult     = "result"     // what a tool gave
	recordCompaction = "compaction" // a summary that stands for the records through a number
)

// record is a line of the conversation's file.
type record struct {
	Type    string        `json:"type"`
	At      time.Time     `json:"at"`
	ID      string        `json:"id,omitempty"`   // of the session, or of the tool's use
	Name    string        `json:"name,omitempty"` // of the tool
	Text    string        `json:"text,omitempty"`
	Failed  bool          `json:"failed,omitempty"`
	Parts   []llm.Part    `json:"parts,omitempty"`
	Model   string        `json:"model,omitempty"`
	Usage   *stint.Tokens `json:"usage,omitempty"`
	Through int           `json:"through,omitempty"` // a number of records, from the first
}

// contextRecord is a record that the model is still told of.
type contextRecord struct {
	number int // of the record, from 1
	record
}

// session is a conversation and its file. What is added is written first.
type session struct {
	file    *os.File
	now     func() time.Time
	id      string
	resumed bool // there was a conversation before
	records int
	visible []contextRecord
	pending []string        // uses of tools that have no result yet
	uses    map[string]bool // IDs of all uses of tools
}

// openSession reads a conversation, or begins one with the ID. What a process
// that was killed left unfinished is put in order: half a line is dropped, and a
// tool that was at work is answered for.
func openSession(path, newID string, now func() time.Time) (*session, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the conversation's folder: %w", err)
	}
	content, err := readSession(path)
	if err != nil {
		return nil, err
	}
	s := &session{now: now, uses: map[string]bool{}}
	good, err := s.load(content)
	if err != nil {
		return nil, &failure{sentence: fmt.Sprintf("The conversation of this session is damaged (%v). Begin a new session, or resume from an earlier checkpoint.", err)}
	}
	if s.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open the conversation: %w", err)
	}
	if err := s.mend(int64(good), newID); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func readSession(path string) ([]byte, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the conversation: %w", err)
	case info.Size() > maxSession:
		return nil, &failure{sentence: "The conversation of this session has grown beyond a gigabyte. Begin a new session."}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the conversation: %w", err)
	}
	return b, nil
}

// load takes the records of a file and returns how much of it is good: all but
// what was torn at its end.
func (s *session) load(content []byte) (good int, err error) {
	for good < len(content) {
		line, rest, whole := bytes.Cut(content[good:], []byte("\n"))
		var r record
		if err := json.Unmarshal(line, &r); !whole || err != nil {
			if len(rest) == 0 {
				return good, nil
			}
			return good, fmt.Errorf("line %d is no record", s.records+1)
		}
		if err := s.take(r); err != nil {
			return good, fmt.Errorf("line %d: %w", s.records+1, err)
		}
		good += len(line) + 1
	}
	return good, nil
}

// mend cuts the file down to what is good of it, writes the first record where
// there is none, and gives the tools a result that were at work.
func (s *session) mend(good int64, newID string) error {
	if err := s.file.Truncate(good); err != nil {
		return fmt.Errorf("mend the conversation: %w", err)
	}
	if s.resumed = s.records > 1; s.records == 0 {
		if err := s.add(record{Type: recordSession, ID: newID}); err != nil {
			return err
		}
	}
	for _, id := range slices.Clone(s.pending) {
		if err := s.add(record{Type: recordResult, ID: id, Failed: true, Text: interruptedResult}); err != nil {
			return err
		}
	}
	return s.sync()
}

// interruptedResult is what a tool gave that was ended at its work.
const interruptedResult = "Interrupted: the tool was ended before it was done. What it had done by then stays."

// add writes a record and takes it.
func (s *session) add(r record) error {
	r.At = s.now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	if err := s.take(r); err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	return nil
}

// take puts a record into the conversation, where it belongs there.
func (s *session) take(r record) error {
	if (s.records == 0) != (r.Type == recordSession) {
		return errors.New("a conversation begins with its name, and with nothing else")
	}
	if r.Type != recordResult && len(s.pending) > 0 {
		return fmt.Errorf("the tool's use %s has no result", s.pending[0])
	}
	switch r.Type {
	case recordSession:
		s.id = r.ID
		s.records++
		return nil
	case recordPrompt, recordNote:
	case recordAnswer:
		for _, p := range r.Parts {
			if p.Kind == llm.ToolUse {
				s.pending = append(s.pending, p.ID)
				s.uses[p.ID] = true
			}
		}
	case recordResult:
		i := slices.Index(s.pending, r.ID)
		if i < 0 {
			return fmt.Errorf("the result %s is of no use", r.ID)
		}
		s.pending = slices.Delete(s.pending, i, i+1)
	case recordCompaction:
		if r.Through < 1 || r.Through > s.records {
			return errors.New("a summary is of records that are not there")
		}
		s.records++
		s.summarise(r)
		return nil
	default:
		return fmt.Errorf("a record is of type %q", r.Type)
	}
	s.records++
	s.visible = append(s.visible, contextRecord{s.records, r})
	return nil
}

// summarise puts a summary, the newest record, in the place of the one before
// and of the visible through the one that it names.
func (s *session) summarise(r record) {
	through := r.Through
	if !slices.ContainsFunc(s.visible, func(e contextRecord) bool { return e.number == through && e.Type != recordCompaction }) {
		through = 0 // older files may name a summary, whose number says nothing of the visible behind it
	}
	s.visible = slices.DeleteFunc(s.visible, func(e contextRecord) bool { return e.Type == recordCompaction || e.number <= through })
	s.visible = append([]contextRecord{{s.records, r}}, s.visible...)
}

// messages is the conversation as the model is told it.
func (s *session) messages() []llm.Message {
	out := make([]llm.Message, 0, len(s.visible))
	for _, e := range s.visible {
		m := llm.Message{Role: llm.User}
		switch e.Type {
		case recordAnswer:
			m.Role, m.Parts = llm.Assistant, e.Parts
		case recordResult:
			m.Parts = []llm.Part{{Kind: llm.ToolResult, ID: e.ID, Name: e.Name, Text: e.Text, Failed: e.Failed}}
		default:
			m.Parts = []llm.Part{{Kind: llm.Text, Text: e.Text}}
		}
		out = append(out, m)
	}
	return out
}

// number gives each use of a tool an ID that no other use has.
func (s *session) number(parts []llm.Part) {
	given := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		if p.Kind != llm.ToolUse {
			continue
		}
		if p.ID == "" || s.uses[p.ID] || given[p.ID] {
			p.ID = fmt.Sprintf("call_%d_%d", s.records+1, i)
		}
		given[p.ID] = true
	}
}

func (s *session) sync() error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	return nil
}

func (s *session) close() { _ = s.file.Close() } // it was synced

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

// maxSession is the maximum size of a conversation's file that is read, in bytes.
const maxSession = 1 << 30

// The types of records. Only the first record of a file is a recordSession.
const (
	recordSession    = "session"
	recordPrompt     = "prompt"     // the user's prompt
	recordNote       = "note"       // a message of the assistant to the model
	recordAnswer     = "answer"     // an answer of the model
	recordResult     = "result"     // the result of a tool
	recordCompaction = "compaction" // a summary of the records up to the number Through
)

// record is a line of the conversation's file.
type record struct {
	Type    string        `json:"type"`
	At      time.Time     `json:"at"`
	ID      string        `json:"id,omitempty"`   // of the session, or of the tool call
	Name    string        `json:"name,omitempty"` // of the tool
	Text    string        `json:"text,omitempty"`
	Failed  bool          `json:"failed,omitempty"`
	Parts   []llm.Part    `json:"parts,omitempty"`
	Model   string        `json:"model,omitempty"`
	Usage   *stint.Tokens `json:"usage,omitempty"`
	Through int           `json:"through,omitempty"` // number of the last summarised record, from 1
}

// contextRecord is a record that requests to the model contain, because no summary
// replaces it.
type contextRecord struct {
	number int // of the record, from 1
	record
}

// session is a conversation and its file. A record is written to the file before a
// request contains it.
type session struct {
	file    *os.File
	now     func() time.Time
	id      string
	resumed bool // the file had records of earlier runs
	records int
	visible []contextRecord
	pending []string        // IDs of tool calls without a result
	uses    map[string]bool // IDs of all tool calls
}

// openSession reads the conversation in the file at path, or starts one with the ID
// newID. It repairs the file of a killed process: an incomplete last line is removed,
// and interrupted tool calls get a result.
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
	if err := s.repair(int64(good), newID); err != nil {
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
		return nil, &failure{sentence: "The conversation of this session is larger than 1 GiB. Begin a new session."}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the conversation: %w", err)
	}
	return b, nil
}

// load reads the records and returns the length of the valid part of the file,
// without an incomplete last line.
func (s *session) load(content []byte) (good int, err error) {
	for good < len(content) {
		line, rest, whole := bytes.Cut(content[good:], []byte("\n"))
		var r record
		if err := json.Unmarshal(line, &r); !whole || err != nil {
			if len(rest) == 0 {
				return good, nil
			}
			return good, fmt.Errorf("line %d is not a record", s.records+1)
		}
		if err := s.apply(r); err != nil {
			return good, fmt.Errorf("line %d: %w", s.records+1, err)
		}
		good += len(line) + 1
	}
	return good, nil
}

// repair truncates the file to its valid part, writes the first record if it is
// missing, and adds results for interrupted tool calls.
func (s *session) repair(good int64, newID string) error {
	if err := s.file.Truncate(good); err != nil {
		return fmt.Errorf("repair the conversation: %w", err)
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

// interruptedResult is the result of an interrupted tool call.
const interruptedResult = "Interrupted: the tool was stopped before it finished. Its changes until then remain."

// add applies a record to the conversation and writes it to the file.
func (s *session) add(r record) error {
	r.At = s.now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	if err := s.apply(r); err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the conversation: %w", err)
	}
	return nil
}

// apply applies a record to the conversation. It returns an error if the record
// is not valid at this position.
func (s *session) apply(r record) error {
	if (s.records == 0) != (r.Type == recordSession) {
		return errors.New("only the first record can be the session's ID")
	}
	if r.Type != recordResult && len(s.pending) > 0 {
		return fmt.Errorf("the tool call %s has no result", s.pending[0])
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
			return fmt.Errorf("the result %s belongs to no tool call", r.ID)
		}
		s.pending = slices.Delete(s.pending, i, i+1)
	case recordCompaction:
		if r.Through < 1 || r.Through > s.records {
			return errors.New("a summary covers records that do not exist")
		}
		s.records++
		s.summarise(r)
		return nil
	default:
		return fmt.Errorf("a record has the unknown type %q", r.Type)
	}
	s.records++
	s.visible = append(s.visible, contextRecord{s.records, r})
	return nil
}

// summarise replaces the previous summary, and the records that the new summary r
// covers, by r. r is the newest record of the file and the first of the visible ones.
func (s *session) summarise(r record) {
	through := r.Through
	if !slices.ContainsFunc(s.visible, func(e contextRecord) bool { return e.number == through && e.Type != recordCompaction }) {
		// In older files, Through can be the number of a summary. This number is greater
		// than the numbers of visible records that the new summary does not cover.
		through = 0
	}
	s.visible = slices.DeleteFunc(s.visible, func(e contextRecord) bool { return e.Type == recordCompaction || e.number <= through })
	s.visible = append([]contextRecord{{s.records, r}}, s.visible...)
}

// messages returns the visible records as messages for the model.
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

// number replaces IDs of tool calls that are missing or not unique.
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

func (s *session) close() { _ = s.file.Close() } // the file is synced

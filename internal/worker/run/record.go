package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/store"
)

// recordFile is the file in a run's folder from which a later process of the worker can
// store the run's state after a crash. It is outside the folders that agents see.
const recordFile = "salvage.json"

// maxRecordFile is the maximum size of a record that is read, in bytes.
const maxRecordFile = 16 << 20

// Record describes the state of a run on a worker's disk. It contains no secrets and no
// definition.
type Record struct {
	Boot           string          `json:"boot"` // boot ID of the host
	Position       store.Position  `json:"position"`
	OrgID          string          `json:"orgId"`
	AgentVersionID string          `json:"agentVersionId"`
	Run            recordedRun     `json:"run"`
	Plan           definition.Plan `json:"plan"`            // without the definition
	Upper          string          `json:"upper,omitempty"` // upper layer of the workspace, relative to the run's folder
	Keep           []string        `json:"keep,omitempty"`  // as in framework.State
	Drop           []string        `json:"drop,omitempty"`
	// Conversation is the conversation as far as it is known.
	Conversation framework.Conversation `json:"conversation,omitzero"`
}

// recordedRun contains the fields of a run that its checkpoint needs.
type recordedRun struct {
	SessionID string `json:"sessionId"`
	AgentID   string `json:"agentId"`
	AgentName string `json:"agentName"`
}

// bootID returns the boot ID of the host, or "" if it has none.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
})

// recorder writes the record of a run. It does not sync the file: after a crash of the
// process, the file's content is in the system's memory.
type recorder struct {
	dir string

	mu     sync.Mutex // guards record and the file
	record Record
}

// newRecorder returns a recorder that has not written anything.
func (s *state) newRecorder() *recorder {
	r := &s.a.Run
	plan := *s.a.Plan
	plan.Definition = stint.Definition{}          // it can be large, and its texts can contain keys
	upper, _ := filepath.Rel(s.dirs.Dir, s.upper) // both are absolute
	if s.upper == "" {
		upper = ""
	}
	return &recorder{dir: s.dirs.Dir, record: Record{
		Boot: bootID(), Position: s.a.Position, OrgID: s.a.OrgID, AgentVersionID: s.a.AgentVersionID,
		Run: recordedRun{r.SessionID, r.AgentID, r.AgentName}, Plan: plan, Upper: upper,
		Keep: s.plan.State.Keep, Drop: s.plan.State.Drop, Conversation: s.conversation(),
	}}
}

// write replaces the file.
func (r *recorder) write() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := json.Marshal(&r.record)
	if err != nil {
		return fmt.Errorf("encode the record of a run: %w", err)
	}
	path := filepath.Join(r.dir, recordFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("write the record of a run: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the record of a run: %w", err)
	}
	return nil
}

// setConversation replaces the conversation in the record.
func (r *recorder) setConversation(c framework.Conversation) error {
	r.mu.Lock()
	r.record.Conversation = c
	r.mu.Unlock()
	return r.write()
}

// startRecording writes the record while the command is being started. The returned
// function waits for the end of this.
func (s *state) startRecording() (wait func()) {
	r := s.newRecorder()
	s.recorder.Store(r)
	var writing sync.WaitGroup
	writing.Go(func() { s.logRecording(r.write()) })
	return writing.Wait
}

// dropRecord removes the record after the run has been finished.
func (s *state) dropRecord() {
	if s.recorder.Load() != nil {
		_ = os.Remove(filepath.Join(s.dirs.Dir, recordFile)) // Salvage would find a finished run
	}
}

func (s *state) logRecording(err error) {
	if err != nil {
		s.log.Warn("a crash of the server would lose the files of this run", "error", err)
	}
}

// Conversed implements output.Signals.
func (s *state) Conversed(c framework.Conversation) {
	if r := s.recorder.Load(); r != nil {
		c.Framework, c.Version = s.framework(), s.cli.Version
		s.logRecording(r.setConversation(c))
	}
}

// ReadRecord returns the record in the folder of a run. If there is none, or if it is not
// complete, ok is false.
func ReadRecord(dir string) (r Record, ok bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return r, false, fmt.Errorf("open the folder of a run: %w", err)
	}
	defer root.Close()
	b, err := readFile(root, recordFile, maxRecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read the record of a run: %w", err)
	}
	if json.Unmarshal(b, &r) != nil || r.Position.RunID == "" || r.Position.Epoch == 0 {
		return r, false, nil // the host crashed before the file was complete
	}
	return r, true, nil
}

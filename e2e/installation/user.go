package installation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// Agent creates a shell agent. more is empty, or a comma followed by further JSON
// members of the definition.
func Agent(t testing.TB, c *client.Client, name, more string) {
	t.Helper()
	_, err := c.Agents.Create(t.Context(), json.RawMessage(`{"name":"`+name+`","framework":"shell"`+more+`}`))
	Check(t, err)
}

// Create creates a run and returns it. If n names no agent, session, or checkpoint, the
// agent is "shell".
func Create(t testing.TB, c *client.Client, n stint.NewRun) *stint.Run {
	t.Helper()
	if n.Agent == "" && n.SessionID == "" && n.CheckpointID == "" {
		n.Agent = "shell"
	}
	r, err := c.Runs.Create(t.Context(), n, nil)
	Check(t, err)
	return r
}

// Ended waits up to three minutes until a run has ended, and returns the run.
func Ended(t testing.TB, c *client.Client, id string) *stint.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := c.Runs.Wait(ctx, id)
	if err != nil {
		t.Errorf("waiting for %s: %v", id, err)
		t.Fatal(Story(t, c, id))
	}
	return r
}

// Story returns the events and logs of a run so far, for a failure message.
func Story(t testing.TB, c *client.Client, id string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "events of %s:\n", id)
	for _, e := range Events(t, c, id) {
		fmt.Fprintf(&b, "  %d %s %s\n", e.Seq, e.Type, Tail(string(e.Data), 1000))
	}
	for _, kind := range []stint.LogType{stint.LogSystem, stint.LogNetwork, stint.LogAgent} {
		for _, e := range Logs(t, c, id, kind) {
			m, _ := json.Marshal(e.Metadata)
			fmt.Fprintf(&b, "  %s %s %s %s\n", kind, e.Level, Tail(e.Message, 240), m)
		}
	}
	return b.String()
}

// Events returns the events of a run so far.
func Events(t testing.TB, c *client.Client, id string) (all []stint.Event) {
	t.Helper()
	for e, err := range c.Runs.RecordedEvents(t.Context(), id, 0) {
		Check(t, err)
		all = append(all, e)
	}
	return all
}

// Output returns the data of an output event.
func Output(t testing.TB, e stint.Event) (o stint.OutputData) {
	t.Helper()
	Check(t, json.Unmarshal(e.Data, &o))
	return o
}

// Logs returns the log entries of a run so far that have the type kind, or all entries
// if kind is empty.
func Logs(t testing.TB, c *client.Client, id string, kind stint.LogType) (all []stint.LogEntry) {
	t.Helper()
	for e, err := range c.Runs.Logs(t.Context(), id, client.LogFilter{Type: kind}) {
		Check(t, err)
		all = append(all, e)
	}
	return all
}

// Value returns the value at p, or the zero value if p is nil.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

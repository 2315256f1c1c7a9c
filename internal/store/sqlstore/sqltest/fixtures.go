// Package sqltest provides fixtures and tests that the SQL adapters use in addition to the
// suite in package storetest. It also provides benchmarks with comparable results for SQLite
// and PostgreSQL.
package sqltest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Org is the organisation of the fixtures.
const Org = "org_1"

var ids = stint.NewIDs(time.Now, rand.Reader)

func now() stint.Time { return stint.TimeOf(time.Now()) }

// Batch returns a batch with a new token and an output event for each text.
func Batch(texts ...string) store.Batch {
	b := store.Batch{Token: ids.New("")}
	for _, text := range texts {
		data, err := json.Marshal(stint.OutputData{Content: text})
		if err != nil {
			panic(err) // strings can always be encoded
		}
		b.Events = append(b.Events, stint.Event{Type: stint.EventOutput, At: now(), Data: data})
	}
	return b
}

// Entry returns a log entry with the current time.
func Entry(message string) stint.LogEntry {
	return stint.LogEntry{Timestamp: now(), Type: stint.LogSystem, Level: "info", Message: message}
}

// NewRun returns a pending run of the agent ag_i in a new session. It does not store the
// run.
func NewRun(i int) store.NewRun {
	var n store.NewRun
	n.ID, n.SessionID, n.OpenSession = ids.New(stint.PrefixRun), ids.New(stint.PrefixSession), true
	n.OrgID, n.AgentID, n.AgentName, n.AgentVersionID = Org, fmt.Sprintf("ag_%d", i), "bee", "agv_1"
	n.Status, n.Prompt, n.CreatedAt = stint.Pending, "count to three", now()
	n.Spec, n.Timeout = json.RawMessage(`{"command":["true"]}`), time.Hour
	return n
}

// Worker registers a worker with a lease of one hour and returns the worker's ID.
func Worker(t testing.TB, s store.Store) string {
	t.Helper()
	w := store.Worker{ID: ids.New(stint.PrefixWorker), Host: "here", Capacity: 1000, CreatedAt: now()}
	if err := s.Register(t.Context(), w, time.Hour); err != nil {
		t.Fatal(err)
	}
	return w.ID
}

// StartRuns creates n runs, claims them for a new worker, and returns their positions.
func StartRuns(t testing.TB, s store.Store, n int) []store.Position {
	t.Helper()
	worker := Worker(t, s)
	var out []store.Position
	for i := range n {
		claims, err := s.CreateRun(t.Context(), NewRun(i%3), &store.ClaimRequest{WorkerID: worker, Max: 1, At: now()})
		if err != nil || len(claims) != 1 {
			t.Fatalf("%d claims, %v", len(claims), err)
		}
		out = append(out, claims[0].Position)
	}
	return out
}

// CreateDuplicate tries to create a run with the ID run, which must already exist, in a new
// session. It returns the error of CreateRun.
func CreateDuplicate(t testing.TB, s store.Store, run string) error {
	n := NewRun(0)
	n.ID = run
	_, err := s.CreateRun(t.Context(), n, nil)
	return err
}

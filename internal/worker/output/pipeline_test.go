package output

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/store"
)

// blockedJournal blocks every append until open is closed.
type blockedJournal struct {
	open chan struct{}
	logs []stint.LogEntry
}

func (j *blockedJournal) Append(_ context.Context, _ store.Position, b store.Batch) (int64, error) {
	<-j.open
	j.logs = append(j.logs, b.Logs...)
	return 0, nil
}

// TestServerLogIsBounded checks that the pipeline drops log entries of the server while
// the journal is blocked, and that a single entry contains the number of dropped entries.
func TestServerLogIsBounded(t *testing.T) {
	t.Parallel()
	journal := &blockedJournal{open: make(chan struct{})}
	p := Open(t.Context(), Config{
		Masker: masking.NewMasker(nil), Journal: journal, Stdin: NewStdin(), Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	const sent = 20_000
	for range sent {
		p.Network(log.Entry{Action: log.Deny, Host: "example.com", Port: 443, Protocol: "tcp", Rule: "mode"})
	}
	close(journal.open)
	kept, notices, dropped := 0, 0, 0
	rest := p.Close()
	for _, e := range append(journal.logs, rest.Logs...) {
		if n, ok := e.Metadata["entries"].(int); ok {
			notices, dropped = notices+1, n
			continue
		}
		kept++
	}
	if kept < 1000 || kept > 10_000 {
		t.Errorf("%d of %d entries were kept", kept, sent)
	}
	if notices != 1 || kept+dropped != sent {
		t.Errorf("%d entries kept, %d dropped in %d notices, want a sum of %d in one", kept, dropped, notices, sent)
	}
}

func TestSuppressedEntries(t *testing.T) {
	t.Parallel()
	got := networkMessage(log.Entry{Action: log.Suppressed, Rule: log.Deny, Count: 7, Error: "the log is full"})
	if want := "7 entries (deny) were left out of this log: the log is full"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package worker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/dispatch"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/store"
)

// held is a journal that takes nothing until it is let.
type held struct {
	dispatch.Dispatcher
	let  chan struct{}
	logs []stint.LogEntry
}

func (h *held) Append(_ context.Context, _ store.Position, b store.Batch) (int64, error) {
	<-h.let
	h.logs = append(h.logs, b.Logs...)
	return 0, nil
}

// TestEntriesThatNobodyWaitsForAreBounded, and what is left out of them is told
// once.
func TestEntriesThatNobodyWaitsForAreBounded(t *testing.T) {
	t.Parallel()
	journal := &held{let: make(chan struct{})}
	j := newJob(t.Context(), &Worker{c: Config{Dispatcher: journal, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}}, dispatch.Assignment{})
	defer j.disown(nil)
	j.openRecorder()
	const sent = 20_000
	for range sent {
		j.record.network(log.Entry{Action: log.Deny, Host: "example.com", Port: 443, Protocol: "tcp", Rule: "mode"})
	}
	close(journal.let)
	_, rest, _ := j.record.close()
	kept, told, dropped := 0, 0, 0
	for _, e := range append(journal.logs, rest...) {
		if n, ok := e.Metadata["entries"].(int); ok {
			told, dropped = told+1, n
			continue
		}
		kept++
	}
	if kept < 1000 || kept > 10_000 {
		t.Errorf("%d of %d entries waited", kept, sent)
	}
	if told != 1 || kept+dropped != sent {
		t.Errorf("%d entries are kept, %d are told %d times to be left out, of %d", kept, dropped, told, sent)
	}
}

// TestWhatIsLeftOutOfALogIsSaid in words, too.
func TestWhatIsLeftOutOfALogIsSaid(t *testing.T) {
	t.Parallel()
	got := summary(log.Entry{Action: log.Suppressed, Rule: log.Deny, Count: 7, Error: "the log is full"})
	if want := "7 entries (deny) were left out of this log: the log is full"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

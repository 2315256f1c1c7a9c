package feed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/feed"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func event(n int) stint.Event {
	return stint.Event{Type: stint.EventOutput, Data: json.RawMessage(fmt.Sprintf(`{"content":"%d"}`, n))}
}

func complete() stint.Event {
	return stint.Event{Type: stint.EventComplete, Data: json.RawMessage(`{"status":"completed","executionTimeMs":1}`)}
}

// whole returns the stream that a reader must receive if it begins at position 0.
func whole(m *memory) []byte {
	var b []byte
	for i := range m.events {
		b = feed.AppendFrame(b, &m.events[i])
	}
	return b
}

func readAll(ctx context.Context, t *testing.T, f *feed.Feed, after int64) []byte {
	t.Helper()
	r := f.Follow("run_x", after, time.Hour)
	defer r.Close()
	var got []byte
	for {
		frames, _, done, err := r.Next(ctx)
		if err != nil {
			t.Errorf("after %d bytes: %v", len(got), err)
			return got
		}
		got = append(got, frames...)
		if done {
			return got
		}
	}
}

// commit adds n output events and a complete event to the journal. It notifies the feed in
// each possible way: with the event, with a wake-up only, and twice with the same event (as
// after a lost acknowledgement).
func commit(f *feed.Feed, m *memory, n int) {
	for i := range n {
		e := m.add(event(i))
		switch i % 5 {
		case 0:
			f.Wake("run_x")
		case 1:
			f.Committed("run_x", []stint.Event{e})
			f.Committed("run_x", []stint.Event{e})
		default:
			f.Committed("run_x", []stint.Event{e})
		}
	}
	m.add(complete())
	f.Wake("run_x")
}

func TestReadersReceiveSameStream(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m := &memory{}
	f := feed.New(m, inproc.New(), false)
	var wg sync.WaitGroup
	results := make([][]byte, 50)
	for i := range results {
		wg.Go(func() { results[i] = readAll(ctx, t, f, 0) })
	}
	commit(f, m, 3000)
	wg.Wait()
	want := whole(m)
	for i, got := range results {
		if !bytes.Equal(want, got) {
			t.Fatalf("reader %d received %d bytes, want %d; first difference at %d", i, len(got), len(want), difference(want, got))
		}
	}
	if got := readAll(ctx, t, f, 0); !bytes.Equal(want, got) {
		t.Error("the replay differs from the live stream")
	}
}

// TestLiveTimesAreStoredTimes checks that a live stream has the times of the journal, also
// if the writer's clock was behind that of an earlier writer.
func TestLiveTimesAreStoredTimes(t *testing.T) {
	t.Parallel()
	for _, after := range []int64{0, 1} { // the second reader has not read the event before the live ones
		synctest.Test(t, func(t *testing.T) {
			m := &memory{}
			f := feed.New(m, inproc.New(), false)
			at := func(ms int, e stint.Event) stint.Event {
				e.At = stint.TimeOf(epoch.Add(time.Duration(ms) * time.Millisecond))
				return e
			}
			m.add(at(50, event(0)))
			got := make(chan []byte, 1)
			go func() { got <- readAll(t.Context(), t, f, after) }()
			for _, e := range []stint.Event{at(20, event(1)), at(60, event(2)), at(55, event(3)), at(10, complete())} {
				synctest.Wait() // the reader waits for events
				f.Committed("run_x", []stint.Event{m.add(e)})
			}
			if want, got := whole(m), <-got; !bytes.HasSuffix(want, got) || bytes.Count(got, []byte("\nid: ")) != len(m.events)-int(after) {
				t.Errorf("after %d, the live stream is\n%s\nand the journal\n%s", after, got, want)
			}
		})
	}
}

func TestResumeAtEveryEvent(t *testing.T) {
	t.Parallel()
	m := &memory{}
	f := feed.New(m, inproc.New(), false)
	commit(f, m, 40)
	want := whole(m)
	for after := range len(m.events) {
		got := readAll(t.Context(), t, f, int64(after))
		if !bytes.HasSuffix(want, got) || bytes.Count(got, []byte("\nid: ")) != len(m.events)-after {
			t.Errorf("resumed after %d: %q", after, got)
		}
	}
}

// TestReadersShareReads checks that many readers of many events read the journal at most
// four times per reader on average.
func TestReadersShareReads(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m := &memory{}
	f := feed.New(m, inproc.New(), false)
	const readers, events = 200, 100
	position := make(chan int64, readers*(events+2))
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			r := f.Follow("run_x", 0, time.Hour)
			defer r.Close()
			for {
				_, last, done, err := r.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				position <- last
				if done {
					return
				}
			}
		})
	}
	first := m.add(event(0))
	f.Committed("run_x", []stint.Event{first})
	for range readers {
		<-position
	}
	for i := range events {
		e := m.add(event(i))
		f.Committed("run_x", []stint.Event{e})
	}
	e := m.add(complete())
	f.Committed("run_x", []stint.Event{e})
	wg.Wait()
	if m.reads > 4*readers {
		t.Errorf("%d readers of %d events read the journal %d times", readers, events, m.reads)
	}
}

// TestReplayReadsOnce checks that a replay reads little more than the bytes that it sends.
func TestReplayReadsOnce(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for range 100 {
		m.add(outputEvent(epoch, strings.Repeat("x", 30<<10)))
	}
	m.add(complete())
	want := whole(m)
	if got := readAll(t.Context(), t, feed.New(m, inproc.New(), false), 0); !bytes.Equal(want, got) {
		t.Error("the replay differs")
	}
	if m.size > len(want)*3/2 {
		t.Errorf("%d KiB were read to send %d", m.size>>10, len(want)>>10)
	}
}

// TestRingByteLimit checks that readers near the end are served from the ring, and
// that readers behind many large frames read the journal.
func TestRingByteLimit(t *testing.T) {
	t.Parallel()
	m := &memory{}
	f := feed.New(m, inproc.New(), false)
	var watching []*feed.Follower
	for range 2 { // with two readers the ring is larger
		r := f.Follow("run_x", 0, time.Hour)
		defer r.Close()
		watching = append(watching, r)
	}
	large := strings.Repeat("x", 64<<10)
	add := func() {
		e := m.add(outputEvent(epoch, large))
		f.Committed("run_x", []stint.Event{e})
	}
	add()
	for range 2 { // the second call finds the end and calls caughtUp
		for _, r := range watching {
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			_, _, _, _ = r.Next(ctx)
			cancel()
		}
	}
	for range 200 {
		add()
	}
	e := m.add(complete())
	f.Committed("run_x", []stint.Event{e})
	want := whole(m)
	for _, behind := range []int{8, 100} {
		before := m.reads
		got := readAll(t.Context(), t, f, int64(len(m.events)-behind))
		if !bytes.HasSuffix(want, got) || bytes.Count(got, []byte("\nid: ")) != behind {
			t.Errorf("%d events behind: the stream differs", behind)
		}
		if read := m.reads > before; read != (behind == 100) {
			t.Errorf("%d events behind: the journal was read %d times", behind, m.reads-before)
		}
	}
}

func TestReaderEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.add(event(1))
	f := feed.New(m, inproc.New(), false)
	ctx, cancel := context.WithCancel(t.Context())
	r := f.Follow("run_x", 1, time.Hour)
	defer r.Close()
	cancel()
	if _, last, done, err := r.Next(ctx); err == nil || done || last != 1 {
		t.Errorf("last %d, done %v, error %v", last, done, err)
	}
}

func TestNextAfterSilence(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.add(event(1))
	r := feed.New(m, inproc.New(), false).Follow("run_x", 1, time.Millisecond)
	defer r.Close()
	for range 2 {
		if frames, last, done, err := r.Next(t.Context()); frames != nil || last != 1 || done || err != nil {
			t.Errorf("frames %q, last %d, done %v, error %v", frames, last, done, err)
		}
	}
}

func TestOtherProcessesWakeReaders(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m := &memory{}
	m.add(event(1))
	bus := inproc.New()
	f := feed.New(m, bus, true)
	r := f.Follow("run_x", 1, time.Hour)
	defer r.Close()
	got := make(chan int64, 1)
	go func() {
		_, last, _, _ := r.Next(ctx)
		got <- last
	}()
	m.add(event(2))
	bus.Publish(notify.TopicRun("run_x"))
	if last := <-got; last != 2 {
		t.Errorf("woken at %d, want 2", last)
	}
}

func TestEventsPage(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for i := range 7 {
		m.add(event(i))
	}
	f := feed.New(m, inproc.New(), false)
	for _, tt := range []struct {
		after int64
		limit int
		want  int
		more  bool
	}{{0, 3, 3, true}, {3, 4, 4, false}, {3, 3, 3, true}, {7, 5, 0, false}, {0, 100, 7, false}} {
		events, more, err := f.Events(t.Context(), "run_x", tt.after, tt.limit)
		if err != nil || len(events) != tt.want || more != tt.more {
			t.Errorf("after %d limit %d: %d events, more %v, error %v; want %d, %v", tt.after, tt.limit, len(events), more, err, tt.want, tt.more)
		}
	}
}

func difference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

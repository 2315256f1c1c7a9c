package log_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress/log"
)

// recorder keeps the entries that a buffer delivers.
type recorder struct {
	mu      sync.Mutex
	entries []log.Entry
}

func (r *recorder) deliver(e log.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
}

// summary returns the delivered entries in order: the number of consecutive entries with
// the same action, such as "5 deny", and each suppressed entry with its count and rule. The
// words "at the limit" follow an entry with an error.
func (r *recorder) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for i := 0; i < len(r.entries); i++ {
		e, n := r.entries[i], 1
		for i+1 < len(r.entries) && r.entries[i+1].Action == e.Action && e.Action != log.Suppressed {
			i++
			n++
		}
		line := fmt.Sprintf("%d %s", n, e.Action)
		if e.Action == log.Suppressed {
			line = fmt.Sprintf("suppressed %d %s", e.Count, e.Rule)
		}
		if e.Error != "" {
			line += " at the limit"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

func write(b *log.Buffer, n int, action string) {
	for i := range n {
		b.Write(log.Entry{Action: action, Connection: int64(i)})
	}
}

func TestBufferKeepsOrder(t *testing.T) {
	t.Parallel()
	var r recorder
	b := log.NewBuffer(time.Now, 1000, r.deliver)
	write(b, 100, log.Allow)
	b.Close()
	b.Close()
	write(b, 1, log.Allow)
	for i, e := range r.entries {
		if e.Connection != int64(i) {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
	if diff := cmp.Diff("100 allow", r.summary()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBufferLimitsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := log.NewBuffer(time.Now, 100_000, r.deliver)
		write(b, 1100, log.Allow)
		write(b, 5, log.Deny) // denied entries have their own limit
		synctest.Wait()
		if diff := cmp.Diff("1000 allow, 5 deny", r.summary()); diff != "" {
			t.Errorf("at once (-want +got):\n%s", diff)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		write(b, 300, log.Allow) // 200 entries per second are accepted
		b.Close()
		if diff := cmp.Diff("1000 allow, 5 deny, suppressed 100 allow, 200 allow, suppressed 100 allow", r.summary()); diff != "" {
			t.Errorf("after a second and Close (-want +got):\n%s", diff)
		}
	})
}

func TestBufferLimitsNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := log.NewBuffer(time.Now, 40, r.deliver)
		for range 3 { // suppressed entries are reported when the limit is reached, and by Close
			write(b, 20, log.Deny)
			write(b, 20, log.Allow)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		b.Close()
		want := "10 deny, 20 allow, suppressed 10 deny at the limit, 10 allow, suppressed 10 allow at the limit, suppressed 20 allow, suppressed 40 deny"
		if diff := cmp.Diff(want, r.summary()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestBufferDoesNotBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		var r recorder
		b := log.NewBuffer(time.Now, 100_000, func(e log.Entry) { <-blocked; r.deliver(e) })
		for range 20 {
			write(b, 200, log.Allow)
			time.Sleep(time.Second)
		}
		close(blocked)
		b.Close()
		var delivered, suppressed int64
		for _, e := range r.entries {
			if e.Action == log.Suppressed {
				suppressed += e.Count
			} else {
				delivered++
			}
		}
		if delivered != 2065 || delivered+suppressed != 4000 { // the entries in the queue, and the entry in the blocked function
			t.Errorf("%d entries were delivered and %d suppressed", delivered, suppressed)
		}
	})
}

package egress

import (
	"sync"
	"time"
)

// The actions of an Entry.
const (
	Allow      = "allow"
	Deny       = "deny"
	Suppressed = "suppressed"
)

// Bounds of the log of one session, for refusals and for the rest each.
const (
	entryRate  = 200  // entries a second
	entryBurst = 1000 // entries at once
	entryQueue = 2*entryBurst + 64
)

// openAfter is how long something lasts before its beginning is told.
const openAfter = 500 * time.Millisecond

// Entry is one thing that a sandbox tried, as far as it is known.
type Entry struct {
	Time          time.Time // when it began
	Connection    int64     // counts within the session; 0 for datagrams
	Open          bool      // it goes on; another entry tells the end
	Action        string
	Rule          string // what decided: "allow *.example.com", "public", "mode none", "private address"
	Protocol      string // dns, tcp, tls, http/1.1, h2
	Method, URL   string // of an HTTP request or, as "A" and so on, of a DNS query
	Host          string // the name asked for, or the address where none is known
	ServerName    string // of TLS, where it differs from Host
	Address       string // where the bytes went
	Port          uint16
	Status        int // of the HTTP answer
	Duration      time.Duration
	RequestBytes  int64 // from the sandbox
	ResponseBytes int64 // to the sandbox
	Count         int64 // of what was suppressed
	Error         string
}

// journal passes entries on, one at a time and in order, without ever holding
// up who writes them.
type journal struct {
	now    func() time.Time
	record func(Entry)
	queue  chan Entry
	kick   chan struct{} // something was suppressed
	done   chan struct{}

	mu         sync.Mutex // guards what follows, and sending against closing
	closed     bool
	denied     allowance
	rest       allowance
	suppressed map[string]int64 // by the action that they had
}

func newJournal(now func() time.Time, record func(Entry)) *journal {
	j := &journal{
		now: now, record: record,
		queue: make(chan Entry, entryQueue), kick: make(chan struct{}, 1), done: make(chan struct{}),
		suppressed: map[string]int64{},
	}
	go j.deliver()
	return j
}

// write takes an entry, or counts it where there are too many.
func (j *journal) write(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	a := &j.rest
	if e.Action == Deny {
		a = &j.denied
	}
	if a.take(j.now()) {
		select {
		case j.queue <- e:
			return
		default:
		}
	}
	j.suppressed[e.Action]++
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// close delivers what is left and returns when it is delivered.
func (j *journal) close() {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.queue)
	}
	j.mu.Unlock()
	<-j.done
}

func (j *journal) deliver() {
	defer close(j.done)
	var due <-chan time.Time
	for {
		select {
		case e, ok := <-j.queue:
			if !ok {
				j.tellSuppressed()
				return
			}
			j.record(e)
		case <-j.kick:
			if due == nil {
				due = time.After(time.Second)
			}
		case <-due:
			due = nil
			j.tellSuppressed()
		}
	}
}

// tellSuppressed writes one entry for each action of which some were left out.
func (j *journal) tellSuppressed() {
	j.mu.Lock()
	counts := j.suppressed
	j.suppressed = map[string]int64{}
	j.mu.Unlock()
	for _, action := range []string{Allow, Deny} {
		if n := counts[action]; n > 0 {
			j.record(Entry{Time: j.now(), Action: Suppressed, Rule: action, Count: n})
		}
	}
}

// allowance is a bucket that entries take from; it begins full.
type allowance struct {
	used float64
	last time.Time
}

func (a *allowance) take(now time.Time) bool {
	if gone := now.Sub(a.last).Seconds(); gone > 0 {
		a.used = max(0, a.used-gone*entryRate)
		a.last = now
	}
	if a.used+1 > entryBurst {
		return false
	}
	a.used++
	return true
}

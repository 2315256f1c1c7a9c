package egress

import (
	"fmt"
	"sync"
	"time"
)

// The actions of an Entry.
const (
	Allow      = "allow"
	Deny       = "deny"
	Suppressed = "suppressed"
)

// Bounds of the log of one session, for refusals and for the rest each; how many
// there may be in all is Config.LogEntries.
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

	mu     sync.Mutex // guards what follows, and sending against closing
	closed bool
	denied share
	rest   share
}

func newJournal(now func() time.Time, most int, record func(Entry)) *journal {
	denied := (most + 3) / 4
	j := &journal{
		now: now, record: record,
		queue: make(chan Entry, entryQueue), kick: make(chan struct{}, 1), done: make(chan struct{}),
		denied: share{action: Deny, most: denied}, rest: share{action: Allow, most: most - denied},
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
	of := &j.rest
	if e.Action == Deny {
		of = &j.denied
	}
	if of.taken < of.most && of.take(j.now()) {
		select {
		case j.queue <- e:
			of.taken++
			return
		default:
		}
	}
	of.suppressed++
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
				j.tellSuppressed(true)
				return
			}
			j.record(e)
		case <-j.kick:
			if due == nil {
				due = time.After(time.Second)
			}
		case <-due:
			due = nil
			j.tellSuppressed(false)
		}
	}
}

// tellSuppressed writes an entry for each share of which some were left out. Of
// one that is used up that is told once, and how many there were at the end.
func (j *journal) tellSuppressed(end bool) {
	j.mu.Lock()
	var told []Entry
	for _, of := range []*share{&j.rest, &j.denied} {
		full := of.taken == of.most
		if of.suppressed == 0 || full && of.full && !end {
			continue
		}
		e := Entry{Time: j.now(), Action: Suppressed, Rule: of.action, Count: of.suppressed}
		if full && !of.full {
			e.Error = fmt.Sprintf("the log has %d entries of this kind, which is all that a run may have; further ones are only counted", of.most)
		}
		of.suppressed, of.full = 0, full
		told = append(told, e)
	}
	j.mu.Unlock()
	for _, e := range told {
		j.record(e)
	}
}

// share is what the entries of a kind have of the log: so many in all, and a
// bucket that they take from, which begins full.
type share struct {
	action     string // that those have which were left out
	most       int
	taken      int
	full       bool  // it was told that no more are
	suppressed int64 // not told yet
	used       float64
	last       time.Time
}

func (s *share) take(now time.Time) bool {
	if gone := now.Sub(s.last).Seconds(); gone > 0 {
		s.used = max(0, s.used-gone*entryRate)
		s.last = now
	}
	if s.used+1 > entryBurst {
		return false
	}
	s.used++
	return true
}

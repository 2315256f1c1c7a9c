package egress

import (
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/egress/proxy"
)

// flow is what is told about one connection.
type flow struct {
	session *Session
	id      int64
	dest    dest
	timer   *time.Timer

	mu     sync.Mutex // guards what follows
	entry  Entry
	ended  bool
	served bool // requests are told, so the connection is not
}

// begin starts to tell about a connection; it is told as open when it lasts.
func (s *Session) begin(id int64, d dest) *flow {
	rule, _ := s.policy.decide(d)
	f := &flow{session: s, id: id, dest: d, entry: Entry{
		Time: s.gate.config.Now(), Connection: id, Action: Allow, Rule: rule, Protocol: "tcp", Host: d.host(), Port: d.port,
	}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(openAfter, f.tellOpen)
	return f
}

func (f *flow) tellOpen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.served {
		return
	}
	e := f.entry
	e.Open = true
	e.Duration = f.session.gate.config.Now().Sub(e.Time)
	f.session.journal.write(e)
}

// begun hears of a request before its server does. One that lasts is told as
// open; the returned function says that it has ended.
func (f *flow) begun(x proxy.Exchange) (ended func()) {
	f.mu.Lock()
	f.served = true
	rule := f.entry.Rule
	f.mu.Unlock()
	e := requestEntry(f.id, x)
	e.Open, e.Rule = true, rule
	var mu sync.Mutex // guards over: nothing is told as open after its end
	over := false
	timer := time.AfterFunc(openAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			e.Duration = f.session.gate.config.Now().Sub(e.Time)
			f.session.journal.write(e)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

// exchange tells one request at its end.
func (f *flow) exchange(x proxy.Exchange) {
	f.mu.Lock()
	f.served = true
	f.mu.Unlock()
	e := requestEntry(f.id, x)
	if x.Refused {
		e.Action = Deny
	}
	if x.Err != nil {
		e.Error = x.Err.Error()
	}
	f.session.journal.write(e)
}

func requestEntry(connection int64, x proxy.Exchange) Entry {
	return Entry{
		Time: x.Begin, Connection: connection, Action: Allow, Rule: x.Rule, Protocol: x.Protocol,
		Method: x.Method, URL: x.URL, Host: x.Host, Port: x.Port, Status: x.Status, Duration: x.Duration,
		RequestBytes: x.RequestBytes, ResponseBytes: x.ResponseBytes,
	}
}

// note keeps what the opening showed.
func (f *flow) note(o opening) {
	f.update(func(e *Entry) {
		e.Protocol = o.protocol()
		if o.serverName != e.Host {
			e.ServerName = o.serverName
		}
	})
}

// led keeps by which rule and where the connection was let out.
func (f *flow) led(r *route) {
	f.update(func(e *Entry) { e.Rule, e.Address = r.rule, r.addr.Addr().String() })
}

func (f *flow) update(change func(*Entry)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.entry)
}

// stop ends the telling without a last entry, where others tell the end.
func (f *flow) stop() {
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

// finish tells the end.
func (f *flow) finish(change func(*Entry)) {
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.served {
		f.ended = true
		return
	}
	f.ended = true
	change(&f.entry)
	f.entry.Duration = f.session.gate.config.Now().Sub(f.entry.Time)
	f.session.journal.write(f.entry)
}

// deny resets the connection and tells why.
func (f *flow) deny(c *stream, r *proxy.Refusal) {
	abort(c)
	f.finish(func(e *Entry) { e.Action, e.Rule, e.Error = Deny, r.Rule, r.Message })
}

// fail resets a connection whose other end could not be reached.
func (f *flow) fail(c *stream, err error) {
	abort(c)
	f.finish(func(e *Entry) { e.Error = err.Error() })
}

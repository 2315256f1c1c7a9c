package egress

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the names of one session.
const (
	maxPins    = 8192 // living at once; the least recently used goes
	maxAnswers = 1024
	answerLife = 10 * time.Second // how long a checked lookup is used again
)

// pins gives names their addresses. An address never stands for a second
// name, so a program that keeps one too long fails instead of talking to
// somebody else.
type pins struct {
	mu     sync.Mutex // guards all below
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	recent *list.List // of pin, most recently used first
	last   netip.Addr
}

type pin struct {
	name string
	addr netip.Addr
}

func newPins() *pins {
	return &pins{
		byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{},
		recent: list.New(), last: pinned.Addr(),
	}
}

// of gives the address of name; false when the session has used all.
func (p *pins) of(name string) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byName[name]; e != nil {
		p.recent.MoveToFront(e)
		return e.Value.(pin).addr, true
	}
	next := p.last.Next()
	if !pinned.Contains(next.Next()) {
		return netip.Addr{}, false
	}
	if p.recent.Len() >= maxPins {
		old := p.recent.Remove(p.recent.Back()).(pin)
		delete(p.byName, old.name)
		delete(p.byAddr, old.addr)
	}
	p.last = next
	e := p.recent.PushFront(pin{name, next})
	p.byName[name], p.byAddr[next] = e, e
	return next, true
}

// name tells for which name an address stands.
func (p *pins) name(a netip.Addr) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byAddr[a]
	if e == nil {
		return "", false
	}
	p.recent.MoveToFront(e)
	return e.Value.(pin).name, true
}

// answers keeps lookups for a moment.
type answers struct {
	mu sync.Mutex // guards of
	of map[string]answer
}

type answer struct {
	addrs []netip.Addr
	until time.Time
}

func (a *answers) get(name string, now time.Time) ([]netip.Addr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, ok := a.of[name]
	return found.addrs, ok && now.Before(found.until)
}

func (a *answers) put(name string, addrs []netip.Addr, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.of) >= maxAnswers {
		clear(a.of)
	}
	a.of[name] = answer{addrs, now.Add(answerLife)}
}

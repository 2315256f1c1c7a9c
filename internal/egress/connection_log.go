package egress

import (
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// openAfter is the duration after which a connection or request in progress is
// logged as open.
const openAfter = 500 * time.Millisecond

// beginLog prepares the connection's log entry. If the connection lasts longer than
// openAfter and no request has begun by then, the entry is logged as open.
func (c *connection) beginLog() {
	rule, _ := c.uplink.policy.Decide(c.dest)
	c.logMu.Lock()
	defer c.logMu.Unlock()
	c.entry = log.Entry{
		Time: c.uplink.gateway.config.Now(), Connection: c.id, Action: log.Allow, Rule: rule, Protocol: "tcp", Host: c.dest.Host(), Port: c.dest.Port,
	}
	c.openTimer = time.AfterFunc(openAfter, c.logOpen)
}

func (c *connection) logOpen() {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	if c.logged || c.logsRequests {
		return
	}
	e := c.entry
	e.Open = true
	c.writeLog(e)
}

// writeLog writes an entry with the duration since the entry's time.
func (c *connection) writeLog(e log.Entry) {
	e.Duration = c.uplink.gateway.config.Now().Sub(e.Time)
	c.uplink.log.Write(e)
}

// beginRequest must be called before a request is forwarded. It returns a function, end,
// that must be called after the request has ended. If the request lasts longer than
// openAfter, it is logged as open.
func (c *connection) beginRequest(x proxy.Exchange) (end func()) {
	c.logMu.Lock()
	c.logsRequests = true
	rule := c.entry.Rule
	c.logMu.Unlock()
	e := c.requestEntry(x)
	e.Open, e.Rule = true, rule
	var mu sync.Mutex // guards ended: a request is not logged as open after its end
	ended := false
	timer := time.AfterFunc(openAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			c.writeLog(e)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		ended = true
	}
}

// logRequest logs a request that has ended.
func (c *connection) logRequest(x proxy.Exchange) {
	c.logMu.Lock()
	c.logsRequests = true
	c.logMu.Unlock()
	e := c.requestEntry(x)
	if x.Refused {
		e.Action = log.Deny
	}
	if x.Err != nil {
		e.Error = x.Err.Error()
	}
	c.uplink.log.Write(e)
}

func (c *connection) requestEntry(x proxy.Exchange) log.Entry {
	return log.Entry{
		Time: x.Begin, Connection: c.id, Action: log.Allow, Rule: x.Rule, Protocol: x.Protocol,
		Method: x.Method, URL: x.URL, Host: x.Host, Port: x.Port, Status: x.Status, Duration: x.Duration,
		RequestBytes: x.RequestBytes, ResponseBytes: x.ResponseBytes, Secrets: x.Secrets,
	}
}

// logOpening adds the opening's protocol and server name to the connection's entry.
func (c *connection) logOpening(o opening) {
	c.updateLog(func(e *log.Entry) {
		e.Protocol = o.protocol()
		if o.serverName != e.Host {
			e.ServerName = o.serverName
		}
	})
}

// logServerConn adds the rule and the dialed address to the connection's entry.
func (c *connection) logServerConn(r *serverConn) {
	c.updateLog(func(e *log.Entry) { e.Rule, e.Address = r.rule, r.addr.Addr().String() })
}

func (c *connection) updateLog(change func(*log.Entry)) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	change(&c.entry)
}

// endLog ends the connection's log without a last entry. It has no effect after
// finishLog.
func (c *connection) endLog() {
	c.openTimer.Stop()
	c.logMu.Lock()
	defer c.logMu.Unlock()
	c.logged = true
}

// finishLog applies change to the connection's entry and writes it as the last entry.
// If requests were logged, or the log has ended, it writes nothing.
func (c *connection) finishLog(change func(*log.Entry)) {
	c.openTimer.Stop()
	c.logMu.Lock()
	defer c.logMu.Unlock()
	if !c.logged && !c.logsRequests {
		change(&c.entry)
		c.writeLog(c.entry)
	}
	c.logged = true
}

// deny resets a refused connection and logs the reason.
func (c *connection) deny(r *policy.Refusal) {
	reset(c.Conn)
	c.finishLog(func(e *log.Entry) { e.Action, e.Rule, e.Error = log.Deny, r.Rule, r.Message })
}

// fail resets a connection because its server cannot be reached, and logs the error.
func (c *connection) fail(err error) {
	reset(c.Conn)
	c.finishLog(func(e *log.Entry) { e.Error = err.Error() })
}

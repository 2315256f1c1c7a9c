// Package log buffers the entries of a run's network log and limits their
// number.
package log

import "time"

// The actions of an Entry.
const (
	Allow      = "allow"
	Deny       = "deny"
	Suppressed = "suppressed"
)

// Entry is one network operation of a sandbox. Unknown fields are empty.
type Entry struct {
	Time          time.Time // of the beginning
	Connection    int64     // counts within the run; 0 for datagrams
	Open          bool      // still in progress; another entry reports the end
	Action        string
	Rule          string // that decided: "allow *.example.com", "public", "mode none", "private address"
	Protocol      string // dns, tcp, tls, http/1.1, h2
	Method, URL   string // of an HTTP request; for a DNS query, Method is the record type
	Host          string // the requested name, or the address if no name is known
	ServerName    string // of TLS, if it differs from Host
	Address       string // that was dialed
	Port          uint16
	Status        int // of the HTTP response
	Duration      time.Duration
	RequestBytes  int64 // from the sandbox
	ResponseBytes int64 // to the sandbox
	Count         int64 // of suppressed entries
	Error         string
}

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
	Time          time.Time // beginning of the operation
	Connection    int64     // number of the connection within the run, from 1; 0 for DNS queries and suppressed entries
	Open          bool      // the operation is in progress; another entry reports its end, or, for a connection with requests, each request
	Action        string
	Rule          string // reason of the decision, such as "allow *.example.com", "public", "mode none", "private address"; for Suppressed, the action of the suppressed entries
	Protocol      string // dns, tcp, tls, http/1.0, http/1.1, h2, or the protocol after an upgrade, such as websocket
	Method, URL   string // method and URL of an HTTP request; for a DNS query, Method is the record type
	Host          string // the requested name, or the address if no name is known
	ServerName    string // server name of TLS, if it differs from Host
	Address       string // address that was dialed
	Port          uint16
	Status        int // status of the HTTP response
	Duration      time.Duration
	RequestBytes  int64    // bytes from the sandbox, of the request's body or of the tunnel
	ResponseBytes int64    // bytes to the sandbox, of the response's body or of the tunnel
	Count         int64    // number of suppressed entries
	Secrets       []string // names of the secrets that were inserted into the request, sorted
	Error         string
}

// Package egress is the only network access of sandboxes.
//
// All connections and DNS queries of a sandbox arrive at listeners of the worker,
// regardless of the address that a program uses. This package accepts them, applies
// the run's policy, dials servers, and logs. A Gateway serves all runs; an Uplink is
// the egress of one run, from Open to Close. The subpackages:
//
//   - policy decides which destinations a run may reach;
//   - dns answers queries and assigns addresses to names;
//   - proxy forwards HTTP requests, inserts secrets, and redacts responses;
//   - tlsca issues certificates for intercepted TLS connections;
//   - llmproxy forwards model and API requests;
//   - conntrack tracks connections to servers, to close them together;
//   - log limits the entries of the network log.
//
// # Names
//
// The policy decides by name. A name that may be reached gets an address in
// 198.18.0.0/15, which represents this name in this run and never another name. A
// connection to the address is a connection to the name. The worker looks up the
// name itself, checks every address, and dials only a checked address. Therefore a
// DNS answer that changes between the check and the dial (DNS rebinding) has no
// effect. In restricted mode, a name without a rule is not looked up, because a
// lookup transfers data too.
//
// A refused name is answered with NXDOMAIN and the extended error "prohibited", or
// "blocked" if the name is malformed, all of its addresses are refused, or the run looks
// up too many names. REFUSED would be more exact, but glibc and Go retry after it and
// report a temporary failure, and musl waits for its time-out. A name that does not
// exist is answered with NXDOMAIN as well. Any other failed lookup is answered with
// SERVFAIL, which clients retry. Only A queries have answers: IPv6 is not available in a
// sandbox, and HTTPS records contain the keys with which a client encrypts the server's
// name.
//
// # Addresses
//
// Public addresses may be reached if the mode allows it. Private, link-local,
// shared, loopback, and other special addresses are refused in every notation,
// unless a range of the definition allows them. Such a range must be within the
// special block: 10.0.0.0/8 allows private addresses, but 0.0.0.0/0 allows only the
// public internet. A range of loopback addresses must have a port. A rule for one of the
// worker's own addresses must contain exactly this address and a port. Metadata services,
// the operator's denied ranges, and some special addresses, such as multicast addresses,
// cannot be allowed. host.stint.internal is the
// worker's loopback interface; a rule must contain this name with a port.
// proxy.stint.internal is an explicit HTTP proxy with the same policy.
//
// # The model and the API
//
// model.stint.internal and api.stint.internal are served in this process on port
// 80, in every mode, if the run has a model or access to the API. These names are
// never dialed or looked up. Programs reach them directly, through the explicit
// proxy, and by CONNECT. If the run has one of these names, the explicit proxy exists
// in mode none too, and refuses all other hosts. Model requests are forwarded to the
// definition's provider with the provider's key; see package llmproxy. The definition
// allows the provider's name in every mode, but not all of its addresses: a private
// address needs a rule in network.allow, and metadata services and denied ranges
// remain refused. Requests to the API's path /mcp are passed to the server's own
// handler with the run's token.
//
// Model requests that are forwarded are logged with the rule "provider" and the
// provider's URL. API requests are logged with the rule "api".
//
// # Connections
//
// The side that sends bytes first determines how a connection is treated. A
// server that sends a greeting is tunnelled at once. A client that begins with
// TLS is tunnelled after its ClientHello, or intercepted if a brokered secret or
// network.inspect requires it. HTTP/1 is forwarded request by request. Any other
// protocol is tunnelled. In restricted mode, a connection that was opened by name
// can reach only allowed hosts: its TLS server name must be allowed; an encrypted
// ClientHello that is not intercepted, cleartext HTTP/2, and an opening that cannot be
// parsed completely are refused. Connections to host.stint.internal are exempt.
//
// # The log
//
// Every refusal, failed lookup, failed connection, HTTP request, and tunnelled connection
// has a log.Entry, which is written when the operation ends. A connection or request that
// lasts longer than half a second has two entries with the same Connection number: one
// with Open set, and one with the result. If a connection has its first request only
// after half a second, the connection has an entry with Open set and none with a result,
// and each request has entries of its own. Refusals and other entries have separate
// limits; see log.Buffer and Config.LogEntries.
package egress

// Package egress is the only network access of sandboxes.
//
// A sandbox's network ends in listeners of the worker, whatever address a
// program uses. This package accepts connections and DNS queries there, applies
// the run's policy, dials, and logs. A Gateway serves all runs; an Uplink is the
// egress of one run, from Serve to Close. The subpackages:
//
//   - policy decides which destinations a run may reach;
//   - dns answers queries and assigns addresses to names;
//   - proxy forwards HTTP requests, inserts secrets, and redacts responses;
//   - tlsca issues certificates for intercepted TLS connections;
//   - llmproxy forwards model and API requests;
//   - log limits the entries of the network log.
//
// # Names
//
// Decisions are made by name. A name that may be reached gets an address in
// 198.18.0.0/15, which represents this name in this run and never another one. A
// connection to the address is a connection to the name. The worker looks the
// name up itself, checks every address, and dials only a checked address, so an
// answer that changes between check and use (DNS rebinding) has no effect. In
// restricted mode, a name without a rule is not looked up, because a lookup
// transfers data too.
//
// A refused name is answered with NXDOMAIN and the extended error "prohibited".
// REFUSED would be more exact, but glibc and Go retry after it and report a
// temporary failure, and musl waits for its time-out. A failed lookup is
// answered with SERVFAIL, which clients retry. Only A queries have answers: IPv6
// is not available in a sandbox, and HTTPS records contain the keys with which a
// client encrypts the server's name.
//
// # Addresses
//
// Public addresses may be reached if the mode allows it. Private, link-local,
// shared, loopback, and other special addresses are refused in every notation,
// unless a range of the definition allows them. Such a range must be within the
// special block: 0.0.0.0/0 is the public internet, and 10.0.0.0/8 is an explicit
// decision. Loopback needs a port as well. Metadata services and the operator's
// denied ranges cannot be allowed. host.stint.internal is the worker's loopback,
// if a rule contains it with its port. proxy.stint.internal is an explicit HTTP
// proxy with the same policy.
//
// # The model and the API
//
// model.stint.internal and api.stint.internal are served in this process on port
// 80, in every mode, if the run has them. These names are never dialed or looked
// up. Programs reach them directly, through the explicit proxy, and by CONNECT;
// the proxy exists in mode none, too, if the run has one of them, and refuses
// all else. Model requests are forwarded to the definition's provider with its
// key; see package llmproxy. The definition allows the provider's name in every
// mode, but not its addresses: a private address needs a rule in network.allow,
// and metadata services and denied ranges remain refused. Requests to the API's
// /mcp are passed to the server's own handler with the run's token.
//
// These requests are logged with the rules "provider" and "api"; the URL of the
// former is the provider's.
//
// # Connections
//
// The side that sends bytes first determines how a connection is treated. A
// server that sends a greeting is tunnelled at once. A client that begins with
// TLS is tunnelled after its ClientHello, or intercepted if a brokered secret or
// network.inspect requires it. HTTP/1 is forwarded request by request. Any other
// protocol is tunnelled. In restricted mode, a connection that was opened by name
// must stay with this name: its TLS server name must be allowed; an encrypted
// ClientHello, cleartext HTTP/2, and an opening that cannot be parsed completely
// are refused.
//
// # The log
//
// Every refusal, failed lookup, HTTP request, and tunnelled connection is one
// log.Entry, written at its end. A connection or request that lasts longer than
// half a second has two entries with the same Connection number: one with Open
// set, and one with the outcome. For a forwarded request, the first has host and
// port only; method and URL follow with the second. Refusals and other entries
// have separate limits; see log.Buffer and Config.LogEntries.
package egress

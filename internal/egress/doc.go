// Package egress answers: what may a sandbox reach?
//
// A sandbox's network ends in listeners of the server, whatever address a
// program inside asks for. This package accepts what arrives there, decides,
// dials and tells what happened. One Gate serves all runs; a Session is one
// run's share of it, from Serve to Close.
//
// # Names
//
// Decisions are made by name. DNS queries are answered here: a name that may
// be reached gets an address of 198.18.0.0/15, which stands for that name in
// that session alone and never for another; a connection to it is a connection
// to the name. The server looks the name up itself, checks every address and
// dials only an address that it checked, so an answer that changes between
// check and use changes nothing. In a restricted session a name that no rule
// names is not looked up at all, for a lookup is a message too.
//
// A refused name is answered NXDOMAIN, with the extended error "prohibited"
// where the client understands it. REFUSED would be truer, but glibc and Go
// ask again after it and report a temporary failure, and musl ignores it and
// waits for its time-out; after NXDOMAIN all of them fail at once and for
// good. A lookup that failed is SERVFAIL, which clients take as "try again".
// Only A has answers: no IPv6 leaves a sandbox, and HTTPS records would hand
// out the keys with which a client hides its server's name.
//
// # Addresses
//
// Public addresses may be reached where the mode allows. Private, link-local,
// shared, loopback and other special addresses are refused, in whatever form
// they are written, unless a range of the definition names them; a range names
// them only when it lies within their block, so 0.0.0.0/0 is the public
// internet and 10.0.0.0/8 is a decision. Loopback needs the port as well.
// Metadata services and the operator's own refusals cannot be allowed.
// host.stint.internal is the worker's loopback, where a rule names it with its
// port. proxy.stint.internal is an explicit HTTP proxy under the same policy.
//
// # The model and the API
//
// model.stint.internal and api.stint.internal are answered in this process, on
// port 80 and where the run is offered them, in every mode; nothing is ever
// dialed or looked up by these names. They are reached by their addresses, by
// the explicit proxy (which is there in mode none, too, when one of them is,
// and refuses all else) and by CONNECT. What asks for the model goes on to the
// definition's provider with its key; see package gateway. That the definition
// names the provider allows its name in every mode and nothing about its
// addresses: a private one needs its rule in network.allow, the worker's
// loopback is host.stint.internal:PORT in both places, metadata services and
// the operator's refusals stay refused. What asks for the API's /mcp is handed
// to the server's own handler with the run's token.
//
// Requests to them are entries with the rules "provider", whose URL is that of
// the provider, and "api".
//
// # Connections
//
// Whoever speaks first decides what a connection is. A server that greets
// first is tunnelled at once. A client that opens with TLS is tunnelled after
// its ClientHello was read, or terminated where a brokered secret or the
// definition's inspect asks for it; one that opens with HTTP/1 is forwarded
// request by request; anything else is tunnelled. In restricted sessions a
// connection that was opened by name may not turn to another: its TLS server
// name must be allowed, an encrypted ClientHello and cleartext HTTP/2 are
// refused, and an opening that cannot be read as a whole is not let through.
//
// # The log
//
// Every refusal, failed lookup, HTTP request and tunnelled connection is one
// Entry, written at its end. What lasts longer than half a second is told
// twice: at its start with Open set, at its end with the outcome; both bear
// the same Connection number. Of a forwarded request the start tells host and
// port; method and URL follow with the end. Refusals and the rest have separate allowances;
// what exceeds them is counted and told once a second by an entry with the
// action "suppressed", so a flood of refusals hides nothing that went out. A
// session has so many entries of each in all (Config.LogEntries): the one that
// tells of the first beyond says so, and the last of the session how many
// followed.
package egress

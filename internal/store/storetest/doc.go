// Package storetest answers: what must every store do?
//
// Run is the definition of the port: an adapter that passes it is a store.
// Each sentence of the port has a case that fails without it; the cases are
// grouped by subject, a file each. Three of them search instead of telling a
// story: Linearizable checks a recorded history of many clients against the
// protocol, the machine group drives one run with random operations beside a
// reference in memory, and the list group walks pages while items are added.
// Mutants shows that the history check can fail: broken stores are caught.
package storetest

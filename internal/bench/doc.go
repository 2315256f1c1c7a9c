// Package bench answers: how fast is the service on this machine?
//
// Each scenario measures the running service and, in the same run, an anchor:
// what the machine itself gives at that moment (a synced write, a bare HTTP
// handler, one write to each socket). The ratio of the two can be compared
// between machines and between busy and quiet hours; absolute numbers cannot.
//
// The load comes from this process. The service runs in a child process where
// its start, its memory, its death or its share of the processor matters, and
// in this process where a scenario must look between its layers. Everything
// happens in temporary folders and on the loopback interface.
package bench

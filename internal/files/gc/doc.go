// Package gc deletes objects that no snapshot refers to, and validates
// snapshots while collections run.
package gc

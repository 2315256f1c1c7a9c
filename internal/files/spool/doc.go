// Package spool keeps the temporary data of a commit in memory and on disk:
// bytes, and entries to be sorted.
package spool

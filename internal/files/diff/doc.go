// Package diff compares snapshots and the text of their files.
package diff

// Package exchange sends and receives snapshots as entries and chunks, and
// keeps the chunk index up to date.
package exchange

// Package format encodes and decodes the stored forms of a snapshot: entries,
// pages, roots, segments, and the footers of packs. It does not access a store.
package format

// Package commit stores new snapshots: it cuts files into chunks, finds chunks
// that are stored already, and writes packs and roots.
package commit

// Package pack reads and writes packs, the objects that hold segments, and
// names the objects of a store.
package pack

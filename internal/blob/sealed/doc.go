// Package sealed answers: how do objects rest encrypted?
//
// New puts encryption before any blob.Store: what is below sees names and
// sizes, and nothing else. An object is
//
//	magic (8 bytes) | version (1) | block size, as a power of two (1) | 0 (2) | key's number (4) | key's check value (8) | salt (24)
//	block 0 | block 1 | … | last block
//
// where a block is 16 KiB of the content and a tag of 16 bytes; the last one
// is shorter, or full, or empty when the content is. So a range needs the
// blocks that it touches, and sizes follow from each other without reading.
//
// The check value tells apart keys that got one number in two lives of a
// database. It is derived (HKDF-SHA256) from the key without a salt, with the
// info "stint key check". This is version 2; in version 1, which is still read,
// the salt has its place as well.
//
// # What is bound
//
// The key of an object is derived (HKDF-SHA256) from its organisation's key and
// its salt, with the info "stint object v2", a zero byte, the header before the
// salt, and the object's name: an object under another's name, or with
// another header, opens nowhere. Each block is sealed (AES-256-GCM) under a
// nonce that holds its place and whether it is the last: blocks that were
// moved, left out, taken from another object or cut off do not open. An end is
// only reported after the last block has been opened. All of that is
// ErrTampered. One that names a key that there is not, by its number or its
// check value, cannot be told from one whose key was lost, and is
// secret.ErrNoDataKey or ErrOtherKey; so is one of another organisation.
//
// # What is not
//
// Whoever writes to the storage can delete objects, or put back an earlier
// object of the same name. Names are digests or random, so the content above
// notices.
package sealed

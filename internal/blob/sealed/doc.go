// Package sealed stores objects encrypted.
//
// A Store wraps another blob.Store, which sees only the names and sizes of the
// objects. An object is
//
//	magic (8 bytes) | version (1) | block size, as a power of two (1) | 0 (2) | key's number (4) | key's check value (8) | salt (24)
//	block 0 | block 1 | … | last block
//
// A block is 16 KiB of the content and a tag of 16 bytes. The last block can be
// shorter, and is empty if the content is empty. So a range needs only the blocks
// that contain it, and the plain size follows from the stored size.
//
// The check value distinguishes keys that have the same number because a database
// was restored. It is derived (HKDF-SHA256) from the key without a salt, with the
// info "stint key check". The format above is version 2. Version 1, which can
// still be read, has a longer salt in place of the check value.
//
// # What is authenticated
//
// The key of an object is derived (HKDF-SHA256) from its organisation's key and
// its salt, with the info "stint object v2", a zero byte, the header before the
// salt, and the object's name. Therefore an object with another name or header
// cannot be decrypted. Each block is encrypted (AES-256-GCM) with a nonce that
// contains the block's number and whether it is the last. Therefore a block that was
// moved, removed, truncated, or taken from another object cannot be decrypted.
// Reads return io.EOF only after the last block was authenticated. All of these
// cases are ErrTampered. If the number or the check value names a key that does
// not exist, the error is sealing.ErrNoDataKey or ErrOtherKey, because the key
// may have been lost. The same applies to an object of another organisation.
//
// # What is not authenticated
//
// Anyone with write access to the storage can delete objects, or restore an earlier
// object of the same name. The packages that use this package detect such a
// replacement, because the names of objects are digests or random.
package sealed

// Package s3 answers: how do objects rest in a bucket?
//
// The bucket may be Amazon's or that of any server that speaks S3 with
// signature 4 and conditional writes; Open tries out what is needed and refuses
// a bucket that cannot keep the promises of blob.Store.
//
// An object of up to two parts is one request, a larger or unmeasured one a
// multipart upload of which at most two parts are in memory. Both commit with
// `If-None-Match: *`, so that the server decides who was first. Every request
// carries the SHA-256 of its body under the signature: what was changed on the
// way is refused. Requests are repeated by the client library, with jittered
// pauses; since a repetition may follow a commit whose answer was lost, each
// object carries a mark of the Put that wrote it, by which that Put knows it.
//
// An object's name in the bucket is its key and an exclamation mark. No key
// holds one and it sorts below all that a key may hold, so names sort as keys
// do, and "a" and "a/b" can both exist on servers that keep files.
//
// Limits: a Put that ends with an error because its last answer never came, or
// its context ended meanwhile, may still be committed by the server later; what
// then appears is whole. An object has at most 10,000 parts, 156 GiB.
package s3

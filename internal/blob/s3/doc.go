// Package s3 stores objects in an S3 bucket.
//
// It works with Amazon S3 and with any server that supports signature version 4
// and conditional writes. Open probes the bucket and refuses one that does not
// satisfy the contract of blob.Store.
//
// Content of known size of up to two parts, or of unknown size of up to one part,
// is sent in one request. Larger content is sent as a multipart upload with at
// most two parts in memory. Both are committed with `If-None-Match: *`, so the
// server decides which of several writers is first. Every request signs the
// SHA-256 of its body, so the server refuses a body that was changed on the way.
// The client library retries requests with jitter. A retry can follow a commit
// if the response to the commit was lost. Therefore each object has a random mark,
// by which the Put recognizes its own object.
//
// The name of an object in the bucket is its key followed by an exclamation
// mark. This character is not allowed in keys and sorts before all that are, so
// names sort like keys, and "a" and "a/b" can both exist on servers that store
// objects as files.
//
// Limits: if the last response of a Put is lost, or its context ends before it,
// Put returns an error, but the server may still create the whole object. An
// object has at most 10,000 parts, 156 GiB.
package s3

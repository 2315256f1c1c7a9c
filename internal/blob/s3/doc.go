// Package s3 stores objects in an S3 bucket.
//
// It works with Amazon S3 and with any server that supports signature version 4
// and conditional writes. Open tests the bucket and returns an error if it does not
// satisfy the contract of blob.Store.
//
// Content of known size of up to two parts, or of unknown size of up to one part,
// is sent in one request. Larger content is sent as a multipart upload with at
// most two parts in memory. Both kinds of request create the object with the
// condition `If-None-Match: *`, so the server decides which of several writers is
// first. Every request signs the SHA-256 of its body, so the server refuses a body
// that was changed on the way. The client library retries requests with jitter. If
// the response to a successful request was lost, the retry fails because the object
// exists. Therefore Put stores a random mark with each object, by which it recognizes
// its own object.
//
// The name of an object in the bucket is its key followed by an exclamation
// mark. This character is not allowed in keys and sorts before all characters that
// are allowed. Therefore names sort like keys, and "a" and "a/b" can both exist on
// servers that store objects as files.
//
// Limits: if the last response of a Put is lost, or its context ends before the
// response arrives, Put returns an error, but the server may still create the whole
// object. An object has at most 10,000 parts, 156 GiB.
package s3

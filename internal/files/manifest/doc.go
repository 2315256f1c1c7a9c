// Package manifest reads and writes manifests: the pages and the root of a
// snapshot.
package manifest

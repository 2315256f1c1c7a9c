// Package limits bounds what a commit accepts, and checks the paths and links
// of untrusted trees.
package limits

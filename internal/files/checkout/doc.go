// Package checkout writes a snapshot into a folder.
package checkout

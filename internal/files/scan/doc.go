// Package scan commits folders, upper layers of overlays, and uploaded
// archives.
package scan

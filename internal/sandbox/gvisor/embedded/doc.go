// Package embedded links gVisor's runsc, about 60 MB, into the program. It is
// the only package that does. A program that imports it runs as runsc when it
// is started under that name. It must be built without cgo.
package embedded

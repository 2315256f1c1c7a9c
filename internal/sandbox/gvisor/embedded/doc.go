// Package embedded answers: where is the user-space kernel of gVisor in this
// program?
//
// Here: importing it links the whole of runsc, about 60 MB, in. It is the only
// package that does. A program with it hands over to runsc when it is started
// under that name. It must be built without cgo.
package embedded

// Package setup answers: what does the first process of a sandbox do?
//
// It is the part of package namespace that runs within: it builds the root, gives
// up its rights, starts the command, and reaps. The two parts talk by the
// messages of package warden. It imports little, as all of its program's start is part
// of a sandbox's.
package setup

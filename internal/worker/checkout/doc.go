// Package checkout answers: which trees of files lie ready on this machine?
//
// A Cache keeps trees checked out, read-only and shared by all runs that show
// them. A tree is a stack of folders, the topmost first, as an overlay takes
// them for its lower layers: one that was checked out is a single folder; one
// that a run left is what the run changed, on top of the tree that it began
// with, so that going on from it costs nothing that depends on its size.
//
// What nobody uses is removed, least recently used first, when there is more
// than the limit. The rest outlives the process but not the machine's next
// start, since nothing here is synced to disk.
package checkout

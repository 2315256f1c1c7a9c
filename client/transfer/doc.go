// Package transfer pushes a local folder to a server as a new version, and pulls a
// version into a local folder.
//
// Push splits the files of a folder into the same chunks as the server does, asks
// which chunks the server lacks, sends the missing chunks, and then sends the tree
// that refers to all chunks. Pull reads a version's tree, compares it with the
// folder, and fetches the chunks that no local file contains.
//
// A transfer does not have a state on the server except the chunks that were stored.
// If a transfer is interrupted, a repetition skips the chunks that have arrived. A
// cache file contains the chunks of each file, so that unchanged files are not read
// again. Every chunk is verified by its hash on arrival, and a file is renamed to
// its final name when it is complete.
package transfer

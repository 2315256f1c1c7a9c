// Package transfer pushes a local folder to a server as a new version, and pulls a
// version into a local folder.
//
// Push splits the files of a folder into the same chunks as the server, asks which
// of them the server lacks, and sends those and then the tree that refers to all.
// Pull reads a version's tree, compares it with the folder, and fetches the chunks
// that no local file contains.
//
// There are no sessions. Received chunks are stored, so an interrupted transfer is
// repeated and continues. A cache file remembers the chunks of each file, so that
// unchanged files are not read again. Every chunk is verified by its hash on
// arrival, and a file is renamed to its final name when it is complete.
package transfer

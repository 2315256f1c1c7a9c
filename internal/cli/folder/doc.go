// Package folder answers: how does a folder become an archive, and come back?
//
// Pack writes a folder as a tar.gz stream that is the same for the same
// folder, leaving out what its .stintignore files name. Unpack writes such a
// stream into a folder and never outside of it, whatever the archive holds.
package folder

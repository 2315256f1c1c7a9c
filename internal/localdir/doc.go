// Package localdir answers: what of a folder is to be kept on a server?
//
// Open and Walk list a folder, leaving out what its .stintignore files name.
// Pack writes it as a tar.gz stream that is the same for the same folder.
package localdir

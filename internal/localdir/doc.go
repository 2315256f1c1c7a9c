// Package localdir lists and packs the files of a local folder.
//
// Open and Walk list a folder without the entries that its .stintignore files
// exclude. Pack writes a tar.gz stream that depends only on the folder's content.
package localdir

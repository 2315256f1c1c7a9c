// Package localdir lists and packs the files of a local folder.
//
// Open lists the entries of a folder that its .stintignore files do not exclude. Walk
// visits all entries and reports whether they are excluded. Folder.Pack writes a
// reproducible tar.gz stream.
package localdir

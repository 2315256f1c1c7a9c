// Package localdir lists and packs the files of a local folder.
//
// Open lists the entries of a folder that its .stintignore files do not exclude.
// Walk also visits excluded entries, but not the content of excluded folders.
// Folder.Pack writes a reproducible tar.gz stream.
package localdir

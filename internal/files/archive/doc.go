// Package archive serves snapshots as tar, tar.gz, tar.zst, and zip files.
package archive

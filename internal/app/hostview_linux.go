//go:build linux && (amd64 || arm64)

package app

import "github.com/stint-dev/stint/internal/sandbox/rootfs"

func shownEverywhere(path string) bool { return rootfs.HostShows(path) }

//go:build linux && (amd64 || arm64)

package app

import "github.com/stint-dev/stint/internal/sandbox/rootfs"

func isVisibleInSandboxes(path string) bool { return rootfs.HostShows(path) }

//go:build linux && (amd64 || arm64)

package app

import "github.com/stint-dev/stint/internal/sandbox/hostview"

func shownEverywhere(path string) bool { return hostview.Shows(path) }

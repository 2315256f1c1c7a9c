//go:build linux && (amd64 || arm64)

package namespace_test

import "time"

const diskInterval = 20 * time.Millisecond

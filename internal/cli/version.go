package cli

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/buildinfo"
)

// build describes the build of this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildOf() build {
	b := build{Version: buildinfo.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this program", Args: exactly(),
		RunE: a.do(func(context.Context, *cobra.Command, []string) error {
			b := buildOf()
			return a.printLine(b, "stint %s %s %s", b.Version, b.Go, b.Platform)
		}),
	}
}

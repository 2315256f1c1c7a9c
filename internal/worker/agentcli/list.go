package agentcli

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// Installed is a framework and the path of its program, for the operator.
type Installed struct {
	stint.Framework
	Path string // path on this host; empty if the framework needs no program, or none was found
}

// All returns all frameworks with their programs, and whether each works on this
// host.
func (f *Finder) All(ctx context.Context) []Installed {
	list := make([]Installed, len(f.c.Frameworks))
	for i, info := range f.c.Frameworks {
		list[i] = f.installed(ctx, info)
	}
	return list
}

// Frameworks is like All, without paths of the host.
func (f *Finder) Frameworks(ctx context.Context) []stint.Framework {
	list := make([]stint.Framework, len(f.c.Frameworks))
	for i, installed := range f.All(ctx) {
		list[i] = installed.Framework
	}
	return list
}

func (f *Finder) installed(ctx context.Context, info framework.Info) Installed {
	in := Installed{Framework: stint.Framework{Name: info.Name, Available: true, Capabilities: info.Capabilities}}
	if len(info.Programs) == 0 {
		return in
	}
	p, err := f.lookUp(info.Name, info.Programs)
	if err != nil {
		in.setUnavailable(missing(info, err))
		return in
	}
	in.Path = p.at
	version, err := f.checkVersion(ctx, info, p)
	if err != nil {
		in.setUnavailable(err)
	} else if version != "" {
		in.Version = &version
	}
	return in
}

// setUnavailable sets the reason why a framework does not work. The reason is the
// message of a *stint.Error. It does not contain other errors, because they may
// contain details of the server.
func (i *Installed) setUnavailable(err error) {
	i.Available, i.Reason = false, "Its program could not be asked for its version. Try again."
	if user, ok := errors.AsType[*stint.Error](err); ok {
		i.Reason = user.Message
	}
}

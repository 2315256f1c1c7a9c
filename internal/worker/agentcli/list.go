package agentcli

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
)

// Installed is a framework and where its program lies on this machine, for
// those who run it.
type Installed struct {
	stint.Framework
	Path string // empty where nothing is needed, or nothing was found
}

// All tells of every framework whether it works here.
func (f *Finder) All(ctx context.Context) []Installed {
	list := make([]Installed, len(f.c.Frameworks))
	for i, of := range f.c.Frameworks {
		list[i] = f.installed(ctx, of)
	}
	return list
}

// Frameworks is All for those who do not run the machine.
func (f *Finder) Frameworks(ctx context.Context) []stint.Framework {
	list := make([]stint.Framework, len(f.c.Frameworks))
	for i, of := range f.All(ctx) {
		list[i] = of.Framework
	}
	return list
}

func (f *Finder) installed(ctx context.Context, of framework.Info) Installed {
	in := Installed{Framework: stint.Framework{Name: of.Name, Available: true, Capabilities: of.Capabilities}}
	if len(of.Programs) == 0 {
		return in
	}
	p, err := f.lookUp(of.Name, of.Programs)
	if err != nil {
		in.refuse(missing(of, err))
		return in
	}
	in.Path = p.at
	version, err := f.checked(ctx, of, p)
	if err != nil {
		in.refuse(err)
	} else if version != "" {
		in.Version = &version
	}
	return in
}

// refuse says why a framework does not work, in a sentence that tells nothing
// about the server.
func (i *Installed) refuse(err error) {
	i.Available, i.Reason = false, "Its program could not be asked for its version. Try again."
	if told, ok := errors.AsType[*stint.Error](err); ok {
		i.Reason = told.Message
	}
}

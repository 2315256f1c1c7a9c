package worker

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// choose settles which isolator and which image the run gets, and refuses what
// this worker cannot give: to go on without it would be weaker than what was
// asked for.
func (j *job) choose() error {
	d := &j.a.Plan.Definition
	if d.Placement != nil && len(d.Placement.Labels) > 0 {
		return stint.InvalidParam("placement.labels", "The agent asks for a worker with labels, but the workers of this server have none. Leave 'placement' out of the agent's definition.")
	}
	var err error
	if j.driver, err = j.e.c.driver(j.ctx, d.Sandbox); err != nil {
		return err
	}
	if err := j.pull(d.Image); err != nil {
		return err
	}
	return j.drive(d)
}

// drive settles which framework drives the agent, and finds its program.
func (j *job) drive(d *stint.Definition) error {
	var err error
	if j.framework, err = j.e.c.Frameworks(d); err != nil {
		return err
	}
	if err := j.framework.Check(d); err != nil {
		return err
	}
	of := j.framework.Info()
	if j.e.c.AgentCLIs != nil {
		j.program, err = j.e.c.AgentCLIs.Find(j.ctx, of, d)
	} else if len(of.Programs) > 0 {
		err = stint.InvalidParam("framework", "The framework '%s' needs the program '%s', which this server does not look for.", of.Name, of.Programs[0])
	}
	return err
}

// driver gives the isolator that a definition names.
func (c *Config) driver(ctx context.Context, name string) (sandbox.Driver, error) {
	if name == "" || name == "default" || name == c.Driver.Name() {
		return c.Driver, nil
	}
	if c.Isolator == nil {
		return nil, stint.InvalidParam("sandbox", "The agent asks for the sandbox '%s', but this server offers '%s' only. Change 'sandbox' in the agent's definition, or ask the operator.", name, c.Driver.Name())
	}
	return c.Isolator(ctx, name)
}

// pull gives the run the image that its definition names, if it names one.
func (j *job) pull(ref string) error {
	if ref == "" || ref == "host" {
		return nil
	}
	if j.e.c.Images == nil {
		return stint.InvalidParam("image", "The agent asks for the image '%s', but this server offers 'host' only. Leave 'image' out of the agent's definition.", ref)
	}
	begin := j.e.c.Now()
	j.record.system("info", fmt.Sprintf("The image %s is looked up.", ref), nil)
	root, err := j.e.c.Images.Acquire(j.ctx, ref, j.progress(ref))
	if err != nil {
		return err
	}
	j.clean.add(func(context.Context) error { root.Release(); return nil })
	j.image, j.imageEnv = root.Dir, root.Env
	if root.Note != "" {
		j.record.system("warn", root.Note, nil)
	}
	metadata := j.since(begin)
	metadata["image"], metadata["digest"] = ref, root.Digest
	j.record.system("info", "The image is ready.", metadata)
	return nil
}

// progress tells of a long download, each quarter once.
func (j *job) progress(ref string) func(done, total int64) {
	told := int64(0)
	return func(done, total int64) {
		if total <= 0 || total < 64<<20 || done*4/total <= told || done >= total {
			return
		}
		told = done * 4 / total
		j.record.system("info", fmt.Sprintf("The image %s is being pulled: %d %%.", ref, told*25), map[string]any{"bytes": done, "totalBytes": total})
	}
}

// Images gives unpacked images.
type Images interface {
	Acquire(ctx context.Context, ref string, progress func(done, total int64)) (*image.Root, error)
}

// AgentCLIs finds the command lines of agents.
type AgentCLIs interface {
	// Find gives what the framework needs installed for a definition, nothing for
	// one that needs nothing. The error is a *stint.Error that says what to
	// install, where that is what is missing.
	Find(ctx context.Context, of framework.Info, d *stint.Definition) (agentcli.CLI, error)
}

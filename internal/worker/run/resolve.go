package run

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/image"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

// target contains the isolator, image, framework, and agent CLI that execute the run.
type target struct {
	driver   sandbox.Driver
	image    string   // folder of the unpacked image; empty for the host's system
	imageEnv []string // environment in the image's configuration
	digest   string   // of the image
	adapter  framework.Framework
	cli      agentcli.CLI
}

// resolve chooses isolator, image, framework, and agent CLI. If this worker cannot
// provide one of them, it returns an error; a run never gets less isolation than
// requested.
func resolve(ctx context.Context, s *state) (release undo, err error) {
	if s.a.Err != nil {
		return nil, s.a.Err
	}
	s.warnOfUnnamedSecrets()
	d := s.definition()
	if !d.Placement.Fits(s.Labels) {
		return nil, stint.InvalidParam("placement.labels", "The agent asks for a worker with other labels than this one has. Change 'placement.labels' in the agent's definition, or ask the operator to start a server with --labels.")
	}
	if s.driver, err = s.isolator(ctx, d.Sandbox); err != nil {
		return nil, err
	}
	if release, err = s.acquireImage(ctx, d.Image); err != nil {
		return release, err
	}
	return release, s.resolveFramework(ctx, d)
}

// resolveFramework sets the framework and finds its program.
func (s *state) resolveFramework(ctx context.Context, d *stint.Definition) (err error) {
	if s.adapter, err = s.Frameworks(d); err != nil {
		return err
	}
	if err := s.adapter.Check(d); err != nil {
		return err
	}
	info := s.adapter.Info()
	if s.AgentCLIs != nil {
		s.cli, err = s.AgentCLIs.Find(ctx, info, d)
	} else if len(info.Programs) > 0 {
		err = stint.InvalidParam("framework", "The framework '%s' needs the program '%s', which this server does not look for.", info.Name, info.Programs[0])
	}
	return err
}

// isolator returns the driver of the isolator that a definition names. The first use of
// an isolator prepares sandboxes as a trial, so it has the time limit of a set-up.
func (s *state) isolator(ctx context.Context, name string) (sandbox.Driver, error) {
	d, err := s.openDriver(ctx, name)
	if err != nil {
		return nil, s.startFailed(err)
	}
	return d, nil
}

// openDriver is like driverOf, with a time limit.
func (c *Config) openDriver(ctx context.Context, name string) (sandbox.Driver, error) {
	if c.isDefault(name) {
		return c.Driver, nil
	}
	var d sandbox.Driver // read only after driverOf has returned
	err := sandbox.Within(ctx, c.SetupLimit, "open the isolation", func(ctx context.Context) (err error) {
		d, err = c.driverOf(ctx, name)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (c *Config) isDefault(name string) bool {
	return name == "" || name == "default" || name == c.Driver.Name()
}

// driverOf returns the driver of the isolator that a definition names.
func (c *Config) driverOf(ctx context.Context, name string) (sandbox.Driver, error) {
	if c.isDefault(name) {
		return c.Driver, nil
	}
	if c.Isolator == nil {
		return nil, stint.InvalidParam("sandbox", "The agent asks for the sandbox '%s', but this server offers '%s' only. Change 'sandbox' in the agent's definition, or ask the operator.", name, c.Driver.Name())
	}
	return c.Isolator(ctx, name)
}

// acquireImage acquires the image of a definition, if it has one, and sets s.image and
// s.imageEnv.
func (s *state) acquireImage(ctx context.Context, ref string) (release undo, err error) {
	if ref == "" || ref == "host" {
		return nil, nil
	}
	if s.Images == nil {
		return nil, stint.InvalidParam("image", "The agent asks for the image '%s', but this server offers 'host' only. Leave 'image' out of the agent's definition.", ref)
	}
	begin := s.Now()
	s.output.System("info", fmt.Sprintf("The image %s is looked up.", ref), nil)
	root, err := s.Images.Acquire(ctx, ref, s.logProgress(ref))
	if err != nil {
		return nil, err
	}
	s.image, s.imageEnv, s.digest = root.Dir, root.Env, root.Digest
	if root.Note != "" {
		s.output.System("warn", root.Note, nil)
	}
	metadata := s.since(begin)
	metadata["image"], metadata["digest"] = ref, root.Digest
	s.output.System("info", "The image is ready.", metadata)
	return func(context.Context) error { root.Release(); return nil }, nil
}

// logProgress returns a function that logs when a quarter, half, and three quarters of a
// download of 64 MiB or more are complete.
func (s *state) logProgress(ref string) func(done, total int64) {
	logged := int64(0)
	return func(done, total int64) {
		if total <= 0 || total < 64<<20 || done*4/total <= logged || done >= total {
			return
		}
		logged = done * 4 / total
		s.output.System("info", fmt.Sprintf("The image %s is being pulled: %d %%.", ref, logged*25), map[string]any{"bytes": done, "totalBytes": total})
	}
}

// Images provides unpacked images.
type Images interface {
	Acquire(ctx context.Context, ref string, progress func(done, total int64)) (*image.Root, error)
}

// AgentCLIs finds installed agent CLIs.
type AgentCLIs interface {
	// Find returns the program that the framework needs for a definition, or the
	// zero CLI if the framework needs none. If the program is missing or too old, the
	// error is a *stint.Error that says how to install or update it.
	Find(ctx context.Context, info framework.Info, d *stint.Definition) (agentcli.CLI, error)
}

// framework returns the name of the definition's framework, or "" if the run has no plan.
func (s *state) framework() string {
	if s.a.Plan == nil {
		return ""
	}
	return s.a.Plan.Definition.Framework
}

// Networked reports whether a driver's sandboxes get a network.
func (s *Shared) Networked(ctx context.Context, d sandbox.Driver) bool {
	return s.Gate != nil && s.report(ctx, d).Network
}

// report returns the capabilities of a driver on this host. It caches the result of
// the driver's probe if the driver works.
func (s *Shared) report(ctx context.Context, d sandbox.Driver) sandbox.Report {
	if known, ok := s.reports.Load(d.Name()); ok {
		return known.(sandbox.Report)
	}
	r := sandbox.Bound(d, s.SetupLimit).Probe(ctx)
	if !r.Available {
		return r // the host can recover
	}
	known, _ := s.reports.LoadOrStore(d.Name(), r)
	return known.(sandbox.Report)
}

// Sandboxes returns a driver that is like d, with time limits, and records the starts of
// processes.
func (s *Shared) Sandboxes(d sandbox.Driver) sandbox.Driver {
	return s.Starts.Driver(sandbox.Bound(d, s.SetupLimit))
}

package worker_test

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox/fake"
	"github.com/stint-dev/stint/internal/worker"
)

// puppet is a framework whose agents write steps of a decoder, one JSON value a
// line, so that a test says word for word what the engine is to do.
type puppet struct {
	plan       framework.Plan
	ask        string // what asks it to end
	verdict    framework.Verdict
	prepared   func(framework.Input)
	fault      error
	native     bool
	afterwards framework.Conversation
}

func puppets(p *puppet) change {
	return func(c *worker.Config) {
		c.Frameworks = func(*stint.Definition) (framework.Framework, error) { return p, nil }
	}
}

func (p *puppet) Info() framework.Info          { return framework.Info{Name: "acp"} }
func (p *puppet) Check(*stint.Definition) error { return nil }

func (p *puppet) Prepare(in framework.Input) (framework.Plan, error) {
	if p.prepared != nil {
		p.prepared(in)
	}
	plan := p.plan
	plan.Protocol = true
	if plan.Argv == nil {
		plan.Argv = []string{"puppet"}
	}
	return plan, p.fault
}

func (p *puppet) NewDecoder(framework.Input) framework.Decoder { return &wires{puppet: p} }

// wires move the puppet.
type wires struct {
	puppet *puppet
	lines  framework.Lines
}

func (s *wires) Write(stream string, b []byte) (all framework.Step) {
	if stream == framework.Stderr {
		return framework.Step{Events: framework.Pieces(stream, b)}
	}
	s.lines.Write(b, func(text []byte, _ bool) {
		var step framework.Step
		if err := json.Unmarshal(text, &step); err != nil {
			panic(err)
		}
		if s.puppet.native {
			step.Native = append(step.Native, framework.Native{Type: "step", Line: string(text)})
		}
		all.Join(step)
	})
	return all
}

func (s *wires) Flush(string) framework.Step { return framework.Step{} }

func (s *wires) Interrupt() []byte {
	if s.puppet.ask == "" {
		return nil
	}
	return []byte(s.puppet.ask + "\n")
}
func (s *wires) Verdict(int) framework.Verdict        { return s.puppet.verdict }
func (s *wires) Conversation() framework.Conversation { return s.puppet.afterwards }

func act(w io.Writer, s framework.Step) {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	say(w, string(b)+"\n")
}

// hang is a command that ends when it is killed.
func hang(ctx context.Context) { <-ctx.Done() }

// read gives a file of the sandbox, or of the host where no folder covers it.
func read(b *fake.Proc, name string) string {
	if host, err := b.Host(name); err == nil {
		name = host
	}
	content, _ := os.ReadFile(name)
	return string(content)
}

// link puts a symbolic link where a folder of the sandbox would be.
func link(b *fake.Proc, target, at string) {
	host, err := b.Host(at)
	if err != nil {
		panic(err)
	}
	_ = os.RemoveAll(host)
	if err := os.Symlink(target, host); err != nil {
		panic(err)
	}
}

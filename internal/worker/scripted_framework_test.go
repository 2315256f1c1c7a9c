package worker_test

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/sandbox/sandboxtest/fake"
	"github.com/stint-dev/stint/internal/worker"
)

// scriptedFramework is a framework with agents that write framework.Step values as JSON,
// one value per line. Its decoder returns these steps, so a test controls every step.
type scriptedFramework struct {
	plan       framework.Plan
	ask        string // interrupt of the decoder, without newline; empty if it has none
	verdict    framework.Verdict
	prepared   func(framework.Input) // called by Prepare, unless nil
	fault      error                 // error of Prepare
	native     bool                  // the decoder also returns each line as a native line
	afterwards framework.Conversation
}

func withFramework(p *scriptedFramework) change {
	return func(c *worker.Config) {
		c.Frameworks = func(*stint.Definition) (framework.Framework, error) { return p, nil }
	}
}

func (p *scriptedFramework) Info() framework.Info          { return framework.Info{Name: "acp"} }
func (p *scriptedFramework) Check(*stint.Definition) error { return nil }

func (p *scriptedFramework) Prepare(in framework.Input) (framework.Plan, error) {
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

func (p *scriptedFramework) NewDecoder(framework.Input) framework.Decoder {
	return &scriptedDecoder{scriptedFramework: p}
}

// scriptedDecoder decodes the steps that an agent writes to standard output.
type scriptedDecoder struct {
	scriptedFramework *scriptedFramework
	lines             framework.Lines
}

func (s *scriptedDecoder) Write(stream string, b []byte) (all framework.Step) {
	if stream == framework.Stderr {
		return framework.Step{Events: framework.Pieces(stream, b)}
	}
	s.lines.Write(b, func(text []byte, _ bool) {
		var step framework.Step
		if err := json.Unmarshal(text, &step); err != nil {
			panic(err)
		}
		if s.scriptedFramework.native {
			step.Native = append(step.Native, framework.Native{Type: "step", Line: string(text)})
		}
		all.Join(step)
	})
	return all
}

func (s *scriptedDecoder) Flush(string) framework.Step { return framework.Step{} }

func (s *scriptedDecoder) Interrupt() []byte {
	if s.scriptedFramework.ask == "" {
		return nil
	}
	return []byte(s.scriptedFramework.ask + "\n")
}
func (s *scriptedDecoder) Verdict(int) framework.Verdict { return s.scriptedFramework.verdict }
func (s *scriptedDecoder) Conversation() framework.Conversation {
	return s.scriptedFramework.afterwards
}

func emit(w io.Writer, s framework.Step) {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	write(w, string(b)+"\n")
}

// hang simulates a command that runs until it is killed.
func hang(ctx context.Context) { <-ctx.Done() }

// read returns the content of a file in the sandbox. If name is not in a mount of the
// sandbox, read returns the file with this name on the host. It returns "" after an error.
func read(b *fake.Proc, name string) string {
	if host, err := b.Host(name); err == nil {
		name = host
	}
	content, _ := os.ReadFile(name)
	return string(content)
}

// link replaces the folder at the path at in the sandbox by a symbolic link to target.
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

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

// scriptedFramework is a framework with agents that write steps of a decoder, one
// JSON value per line, so that a test controls exactly what the decoder returns.
type scriptedFramework struct {
	plan       framework.Plan
	ask        string // its interrupt
	verdict    framework.Verdict
	prepared   func(framework.Input)
	fault      error
	native     bool
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

// scriptedDecoder decodes the steps.
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

// hang is a command that ends when it is killed.
func hang(ctx context.Context) { <-ctx.Done() }

// read returns a file of the sandbox, or of the host if it is in no mount.
func read(b *fake.Proc, name string) string {
	if host, err := b.Host(name); err == nil {
		name = host
	}
	content, _ := os.ReadFile(name)
	return string(content)
}

// link replaces a folder of the sandbox by a symbolic link.
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

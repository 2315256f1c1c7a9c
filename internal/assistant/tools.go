package assistant

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/framework/transcript"
	"github.com/stint-dev/stint/internal/llm"
)

// maxResult is the most that a tool gives the model, in bytes.
const maxResult = 32 << 10

// outcome is what a tool gave. Failed says that it did not do what it was asked;
// a command that ran and ended with an exit code did.
type outcome struct {
	text      string
	failed    bool
	exitCode  *int
	truncated bool
}

func failed(format string, args ...any) outcome {
	return outcome{text: fmt.Sprintf(format, args...), failed: true}
}

// tool is one that the model may use. Its run gets a JSON object.
type tool struct {
	llm.Tool
	run func(ctx context.Context, input json.RawMessage) outcome
}

// toolbox has the tools. Only connect and use are called beside each other, and
// never at once.
type toolbox struct {
	dir   string // that relative paths begin in
	out   *lineWriter
	tools []tool // in the order in which the model is told of them
	// every ticks until it is told to stop.
	every func(time.Duration) (ticks <-chan time.Time, stop func())
}

func newToolbox(dir string, out *lineWriter) *toolbox {
	b := &toolbox{dir: dir, out: out, every: func(d time.Duration) (<-chan time.Time, func()) {
		t := time.NewTicker(d)
		return t.C, t.Stop
	}}
	for _, t := range []tool{b.bash(), b.read(), b.write(), b.edit(), b.listing(), b.search()} {
		b.tools = append(b.tools, demanding(t))
	}
	return b
}

func (b *toolbox) list() []llm.Tool {
	out := make([]llm.Tool, len(b.tools))
	for i, t := range b.tools {
		out[i] = t.Tool
	}
	return out
}

// use uses the tool that a part of an answer names. What it gives is text of a
// bounded length, and never empty.
func (b *toolbox) use(ctx context.Context, p llm.Part) outcome {
	i := slices.IndexFunc(b.tools, func(t tool) bool { return t.Name == p.Name })
	if i < 0 {
		return failed("There is no tool %q.", p.Name)
	}
	if p.Text != "" {
		return failed("The input is no JSON object; perhaps the answer was cut at its longest. It began: %.200s", p.Text)
	}
	o := b.tools[i].run(ctx, p.Input)
	short, cut := transcript.Shorten(strings.ToValidUTF8(o.text, "\uFFFD"), maxResult)
	o.text, o.truncated = short, o.truncated || cut
	if strings.TrimSpace(o.text) == "" {
		o.text = "(no output)"
	}
	return o
}

// path makes a path absolute, as a shell in the working directory would.
func (b *toolbox) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(os.Getenv("HOME"), rest)
	}
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(b.dir, p)
}

// reading makes a tool's run of a function on its input.
func reading[T any](f func(ctx context.Context, in T) outcome) func(context.Context, json.RawMessage) outcome {
	return func(ctx context.Context, raw json.RawMessage) outcome {
		var in T
		if err := json.Unmarshal(raw, &in); err != nil {
			return failed("The input does not fit the tool's schema: %v.", err)
		}
		return f(ctx, in)
	}
}

// demanding makes a tool refuse an input without what its schema requires: a
// text that was left out is not an empty one.
func demanding(t tool) tool {
	var schema struct{ Required []string }
	_ = json.Unmarshal(t.Schema, &schema) // it is our own
	run := t.run
	t.run = func(ctx context.Context, raw json.RawMessage) outcome {
		var input map[string]json.RawMessage
		_ = json.Unmarshal(raw, &input) // who reads it says what is wrong
		for _, name := range schema.Required {
			if value := input[name]; value == nil || string(value) == "null" {
				return failed("The input lacks '%s'.", name)
			}
		}
		return run(ctx, raw)
	}
	return t
}

// object is the JSON Schema of a tool's input. The properties are given as
// name, type and description, one behind the other; the first required of them
// must be there.
func object(required int, properties ...[3]string) json.RawMessage {
	type property struct {
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	s := struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}{"object", map[string]property{}, []string{}}
	for i, p := range properties {
		s.Properties[p[0]] = property{p[1], p[2]}
		if i < required {
			s.Required = append(s.Required, p[0])
		}
	}
	raw, _ := json.Marshal(s) // strings marshal
	return raw
}

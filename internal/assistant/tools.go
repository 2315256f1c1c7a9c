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

// maxResult is the maximum length of a tool result for the model, in bytes.
const maxResult = 32 << 10

// outcome is the result of a tool call. failed is set if the tool could not do its work.
// It is not set for a command that ran and returned an exit code other than 0.
type outcome struct {
	text      string
	failed    bool
	exitCode  *int
	truncated bool
}

func failed(format string, args ...any) outcome {
	return outcome{text: fmt.Sprintf(format, args...), failed: true}
}

// tool is a tool for the model. run executes a call with its input, a JSON object.
type tool struct {
	llm.Tool
	run func(ctx context.Context, input json.RawMessage) outcome
}

// toolbox contains the tools. connect and use must not be called concurrently.
type toolbox struct {
	dir   string // base of relative paths
	out   *lineWriter
	tools []tool // in the order in which requests list them
	// every returns a channel that ticks until stop is called.
	every func(time.Duration) (ticks <-chan time.Time, stop func())
}

func newToolbox(dir string, out *lineWriter) *toolbox {
	b := &toolbox{dir: dir, out: out, every: func(d time.Duration) (<-chan time.Time, func()) {
		t := time.NewTicker(d)
		return t.C, t.Stop
	}}
	for _, t := range []tool{b.bash(), b.read(), b.write(), b.edit(), b.listing(), b.search()} {
		b.tools = append(b.tools, requiring(t))
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

// use runs the tool that part p of an answer calls. The result has a bounded
// length and is never empty.
func (b *toolbox) use(ctx context.Context, p llm.Part) outcome {
	i := slices.IndexFunc(b.tools, func(t tool) bool { return t.Name == p.Name })
	if i < 0 {
		return failed("There is no tool %q.", p.Name)
	}
	if p.Text != "" {
		return failed("The input is not a JSON object; perhaps the answer was cut at its maximum length. It began: %.200s", p.Text)
	}
	o := b.tools[i].run(ctx, p.Input)
	short, cut := transcript.Shorten(strings.ToValidUTF8(o.text, "\uFFFD"), maxResult)
	o.text, o.truncated = short, o.truncated || cut
	if strings.TrimSpace(o.text) == "" {
		o.text = "(no output)"
	}
	return o
}

// path returns p as an absolute path. It resolves relative paths and "~/" as a shell in
// the working directory does.
func (b *toolbox) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return filepath.Join(os.Getenv("HOME"), rest)
	}
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(b.dir, p)
}

// typed converts a function on a typed input into a tool's run.
func typed[T any](f func(ctx context.Context, in T) outcome) func(context.Context, json.RawMessage) outcome {
	return func(ctx context.Context, raw json.RawMessage) outcome {
		var in T
		if err := json.Unmarshal(raw, &in); err != nil {
			return failed("The input does not fit the tool's schema: %v.", err)
		}
		return f(ctx, in)
	}
}

// requiring makes a tool refuse an input that lacks a required member. Without it, a
// missing text would be taken for an empty text.
func requiring(t tool) tool {
	var schema struct{ Required []string }
	_ = json.Unmarshal(t.Schema, &schema) // the schema is valid
	run := t.run
	t.run = func(ctx context.Context, raw json.RawMessage) outcome {
		var input map[string]json.RawMessage
		_ = json.Unmarshal(raw, &input) // run reports the error
		for _, name := range schema.Required {
			if value := input[name]; value == nil || string(value) == "null" {
				return failed("The input lacks '%s'.", name)
			}
		}
		return run(ctx, raw)
	}
	return t
}

// object returns the JSON Schema of a tool's input. Each property has a name, a type,
// and a description. required is the number of required properties, which come first.
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
	raw, _ := json.Marshal(s) // strings can always be encoded
	return raw
}

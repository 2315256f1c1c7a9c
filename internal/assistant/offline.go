package assistant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/llm"
)

const (
	reportName   = "REPORT.md"
	maxReported  = 500      // files listed in the report
	maxVisited   = 50_000   // files counted in a folder
	maxCountable = 16 << 20 // size in bytes up to which the lines of a file are counted
)

// offline implements the interface model without a language model. It executes the
// steps in the lines of a prompt. If there are none, it writes a report of the files.
// Its answers depend only on the conversation and the files.
type offline struct{ c *protocol.Config }

// offlineNotice returns the notice for an offline run. The notice explains the syntax
// only in the first run of a conversation, when again is false.
func offlineNotice(again bool) string {
	const notice = "Offline: no model is configured."
	if again {
		return notice
	}
	return notice + " The lines of the prompt that begin with 'run:', 'write FILE:', or 'read' are executed; if there are none, the files are listed in REPORT.md. To use a model, set 'provider' and 'model' in the agent's definition."
}

// step is one tool call of a plan.
type step struct {
	name  string
	input map[string]any
}

// Ask returns the next step of the newest prompt as a tool call. After the last step
// it returns the final message.
func (o *offline) Ask(ctx context.Context, r llm.Request, on func(llm.Event)) (llm.Answer, error) {
	prompts, done, failures := progressOf(r.Messages)
	prompt := prompts[len(prompts)-1]
	steps := planOf(prompt)
	planned := len(steps)
	if planned == 0 {
		var err error
		if steps, err = o.inventory(ctx, prompts, done); err != nil {
			return llm.Answer{}, err
		}
	}
	if done < len(steps) {
		s := steps[done]
		input, err := json.Marshal(s.input)
		if err != nil {
			return llm.Answer{}, fmt.Errorf("plan a step: %w", err)
		}
		return llm.Answer{Stop: llm.StopTools, Parts: []llm.Part{{Kind: llm.ToolUse, Name: s.name, Input: input}}}, nil
	}
	text := fmt.Sprintf("Wrote a list of the files to %s. No model is configured, so the prompt was not processed further.", reportName)
	if planned > 0 {
		text = fmt.Sprintf("Done: %d of %d steps without failure.", planned-failures, planned)
	}
	on(llm.Event{Kind: llm.Text, Text: text})
	return llm.Answer{Stop: llm.StopEnd, Parts: []llm.Part{{Kind: llm.Text, Text: text}}}, nil
}

// progressOf returns the prompts so far, and the number of steps and of failed
// steps since the newest prompt.
func progressOf(messages []llm.Message) (prompts []string, done, failures int) {
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Kind == llm.ToolResult:
				done++
				last := p.Text[strings.LastIndexByte(p.Text, '\n')+1:]
				if p.Failed || p.Name == "bash" && strings.HasPrefix(last, "(exit code ") {
					failures++
				}
			case p.Kind == llm.Text && m.Role == llm.User:
				prompts, done, failures = append(prompts, p.Text), 0, 0
			}
		}
	}
	if len(prompts) == 0 {
		prompts = []string{""}
	}
	return prompts, done, failures
}

// planOf returns the steps in a prompt, or none if no line is a step.
func planOf(prompt string) (steps []step) {
	for line := range strings.Lines(prompt) {
		line = strings.TrimSpace(line)
		if command, ok := strings.CutPrefix(line, "run:"); ok && strings.TrimSpace(command) != "" {
			steps = append(steps, step{"bash", map[string]any{"command": strings.TrimSpace(command)}})
			continue
		}
		if rest, ok := strings.CutPrefix(line, "write "); ok {
			// A sentence can also begin with "write", but a file name is one word.
			if name, text, ok := strings.Cut(rest, ":"); ok && len(strings.Fields(name)) == 1 {
				steps = append(steps, step{"write", map[string]any{"path": strings.TrimSpace(name), "content": strings.TrimPrefix(text, " ") + "\n"}})
			}
			continue
		}
		if name, ok := strings.CutPrefix(line, "read "); ok && len(strings.Fields(name)) == 1 {
			steps = append(steps, step{"read", map[string]any{"path": strings.Trim(name, `"'`+"` :")}})
		}
	}
	return steps
}

// inventory returns the plan for a prompt without steps: list each directory, then
// write the report. done is the number of completed steps. The content of the report is
// computed only after all directories were listed.
func (o *offline) inventory(ctx context.Context, prompts []string, done int) ([]step, error) {
	steps := []step{{"list", map[string]any{"path": o.c.WorkDir, "depth": 3}}}
	for _, v := range o.c.Volumes {
		steps = append(steps, step{"list", map[string]any{"path": v.Path, "depth": 3}})
	}
	if done < len(steps) {
		return append(steps, step{}), nil
	}
	report, err := o.report(ctx, prompts)
	if err != nil {
		return nil, err
	}
	return append(steps, step{"write", map[string]any{"path": reportName, "content": report}}), nil
}

func (o *offline) report(ctx context.Context, prompts []string) (string, error) {
	var b strings.Builder
	b.WriteString("# Report\n\nWritten offline: no model is configured, so this report only lists the files.\n\n## Prompt\n\n")
	b.WriteString(quoted(prompts[len(prompts)-1]))
	if before := prompts[:len(prompts)-1]; len(before) > 0 {
		b.WriteString("\n## Prompts before\n\n")
		for i, p := range before {
			fmt.Fprintf(&b, "%d. %s\n", i+1, strings.ReplaceAll(strings.TrimSpace(p), "\n", "\n   "))
		}
	}
	if err := folderReport(ctx, &b, "Workspace", o.c.WorkDir); err != nil {
		return "", err
	}
	for _, v := range o.c.Volumes {
		if err := folderReport(ctx, &b, "Volume "+v.Name, v.Path); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func quoted(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ") + "\n"
}

// folderReport writes the files of a directory with their sizes and line
// counts, except for the report itself.
func folderReport(ctx context.Context, b *strings.Builder, title, root string) error {
	var rows strings.Builder
	var files, bytes int64
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || !e.Type().IsRegular() || name == filepath.Join(root, reportName):
			return nil // skip unreadable entries, folders, special files, and the report
		case files == maxVisited:
			return errLimit
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		files++
		bytes += info.Size()
		if files <= maxReported {
			rel, _ := filepath.Rel(root, name) // name is below root
			fmt.Fprintf(&rows, "| %s | %d | %s |\n", strings.ReplaceAll(rel, "|", `\|`), info.Size(), countLines(name, info.Size()))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errLimit) {
		return err
	}
	fmt.Fprintf(b, "\n## %s (%s)\n\n%s, %s.\n", title, root, counted(files, "file"), counted(bytes, "byte"))
	if rows.Len() > 0 {
		b.WriteString("\n| File | Bytes | Lines |\n| --- | ---: | ---: |\n" + rows.String())
	}
	if files > maxReported {
		fmt.Fprintf(b, "\nThe first %d are listed.\n", maxReported)
	}
	if err != nil {
		fmt.Fprintf(b, "\nThere are more than %d; the rest was not counted.\n", maxVisited)
	}
	return nil
}

func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countLines returns the number of lines of a text file, or "–" if the file is binary,
// unreadable, or larger than maxCountable.
func countLines(name string, size int64) string {
	const none = "–"
	if size > maxCountable {
		return none
	}
	f, err := os.Open(name)
	if err != nil {
		return none
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxCountable))
	if err != nil || bytes.IndexByte(content, 0) >= 0 {
		return none
	}
	n := bytes.Count(content, []byte("\n"))
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return fmt.Sprint(n)
}

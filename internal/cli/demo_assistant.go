package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/examples"
)

// maxShown is how many lines of a file the demonstration shows.
const maxShown = 12

// assist lets the assistant work on the same files, with a model or without.
func (d *demonstration) assist(ctx context.Context) (*stint.Run, error) {
	source, task := "assistant/stint.yaml", "assistant/prompt.txt"
	if d.model.url == "" {
		d.title("Let the built-in assistant look at the same files; offline, as no model is named")
	} else {
		source, task = "assistant/model.yaml", "assistant/question.txt"
		d.title(fmt.Sprintf("Let the built-in assistant ask %s about the same files", d.model.name))
	}
	name, err := d.storeAssistant(ctx, source)
	if err != nil {
		return nil, err
	}
	prompt, err := fs.ReadFile(examples.Demo, task)
	if err != nil {
		return nil, fmt.Errorf("open the example: %w", err)
	}
	for line := range strings.Lines(strings.TrimSpace(string(prompt))) {
		d.tell("  > %s", strings.TrimRight(line, "\n"))
	}
	n := stint.NewRun{Agent: name, Prompt: string(prompt), ArtifactName: "notes"}
	if d.model.key != "" {
		n.Secrets = map[string]string{demoKey: d.model.key}
	}
	run, err := d.c.Runs.Create(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	v := &voice{d: d}
	for event, err := range d.c.Runs.Events(ctx, run.ID, 0) {
		if err == nil && event.Type == stint.EventOutput {
			err = v.hear(event.Data)
		}
		if err != nil {
			return nil, err
		}
	}
	v.pause()
	if run, err = d.c.Runs.Get(ctx, run.ID); err != nil {
		return nil, err
	}
	if run.Status != stint.Completed {
		return nil, fmt.Errorf("the assistant's run ended as %s: %s", run.Status, deref(run.Error))
	}
	if used := usageText(run.Usage); used != "" && d.model.url != "" {
		d.tell("%s", used)
	}
	return run, d.showNotes(ctx, run)
}

// storeAssistant stores an example with its instructions and the model.
func (d *demonstration) storeAssistant(ctx context.Context, file string) (name string, err error) {
	source, err := fs.ReadFile(examples.Demo, file)
	if err != nil {
		return "", fmt.Errorf("open the example: %w", err)
	}
	instructions, err := fs.ReadFile(examples.Demo, "assistant/AGENTS.md")
	if err != nil {
		return "", fmt.Errorf("open the example: %w", err)
	}
	definition, err := parseDefinition(source)
	if err != nil {
		return "", err
	}
	definition["instructions"] = string(instructions)
	d.model.give(definition)
	agent, err := storeAgent(ctx, d.c, definition)
	if err != nil {
		return "", err
	}
	return agent.Name, nil
}

// showNotes tells which files the assistant has left, and shows what a person
// would read first.
func (d *demonstration) showNotes(ctx context.Context, run *stint.Run) error {
	if run.ArtifactVersion == nil {
		d.tell("It left no file.")
		return nil
	}
	artifact, err := d.c.Artifacts.Find(ctx, "notes")
	if err != nil {
		return err
	}
	shown := ""
	for f, err := range d.c.Artifacts.Files(ctx, artifact.ID, *run.ArtifactVersion) {
		if err != nil {
			return err
		}
		if f.Kind != "file" {
			continue
		}
		d.tell("%9s  %s", bytesText(f.Size), plain(f.Path))
		if shown == "" || strings.HasSuffix(f.Path, ".md") {
			shown = f.Path
		}
	}
	if shown == "" {
		d.tell("It left no file.")
		return nil
	}
	dir := filepath.Join(d.dir, "notes")
	if _, err := d.a.fetch(ctx, d.c, stint.Artifacts, artifact.ID, *run.ArtifactVersion, dir, pullOptions{}); err != nil {
		return err
	}
	return d.showFile(dir, shown)
}

// showFile shows the beginning of a file that an agent has made: links in its
// folder may lead anywhere.
func (d *demonstration) showFile(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open what the assistant made: %w", err)
	}
	defer func() { _ = root.Close() }() // only read from
	content, err := root.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read what the assistant made: %w", err)
	}
	d.tell("\n   %s:", plain(name))
	shown := 0
	for line := range strings.Lines(string(content)) {
		if shown++; shown > maxShown {
			d.tell("  | …")
			break
		}
		d.tell("  | %s", plain(strings.TrimRight(line, "\n")))
	}
	return nil
}

// voice shows what an agent says and does, a line at a time.
type voice struct {
	d    *demonstration
	line strings.Builder // what it is saying
}

func (v *voice) hear(data json.RawMessage) error {
	var o stint.OutputData
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	switch {
	case o.Item == nil || o.Item.Kind == stint.ItemMessage:
		if o.Item == nil || !o.Item.Delta {
			v.pause()
		}
		before, rest, ends := strings.Cut(o.Content, "\n")
		for ; ends; before, rest, ends = strings.Cut(rest, "\n") {
			v.line.WriteString(before)
			v.pause()
		}
		v.line.WriteString(before)
	case o.Item.Kind == stint.ItemToolCall:
		v.pause()
		v.d.tell("%s", v.d.a.colour(stdout, faint, "  "+plain(firstLine(o.Content))))
	}
	return nil
}

// pause ends the line.
func (v *voice) pause() {
	if text := strings.TrimSpace(v.line.String()); text != "" {
		v.d.tell("  %s", plain(text))
	}
	v.line.Reset()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

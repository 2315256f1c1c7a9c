package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (a *app) agent() *cobra.Command {
	return a.parent("agent", "Store and list agents", a.agentPush(), a.agentList(), a.agentShow(), a.agentVersions(), a.agentRemove())
}

func (a *app) agentPush() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "push [FILE]",
		Short: "Store a definition as an agent or as its new version",
		Long: `Store the definition in FILE (default stint.yaml). If an agent
of that name exists, it gets a new version, unless the definition is unchanged;
otherwise the agent is created.

If 'instructions' names a file in the folder of the definition, the content of
that file is sent.`,
		Args: exactly("[FILE]"),
	}
	c.Flags().StringVar(&name, "name", "", "name of the agent, instead of the definition's")
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, args []string) error {
		file := definitionFile
		if len(args) == 1 {
			file = args[0]
		}
		source, err := readDefinition(a.path(file))
		if err != nil {
			return err
		}
		source.file = cmp.Or(shown(a.Dir, source.file), source.file)
		if name != "" {
			source.members["name"] = name
		}
		return a.pushAgent(ctx, source)
	})
	return c
}

// pushed is the result of 'stint agent push'.
type pushed struct {
	stint.Agent
	VersionNumber int64  `json:"versionNumber"`
	Change        string `json:"change"` // created, updated, or unchanged
}

// shown returns the path of a file relative to dir, or "" if the file is outside of it.
func shown(dir, file string) string {
	path, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(path) {
		return ""
	}
	return path
}

func (a *app) pushAgent(ctx context.Context, source *definitionSource) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	done, err := storeAgent(ctx, c, source.members)
	if err != nil {
		return source.explain(err)
	}
	for _, warning := range source.place(len(done.Warnings), func(i int) (param, message string) { return done.Warnings[i].Param, done.Warnings[i].Message }) {
		a.note("stint: warning: %s", warning)
	}
	switch done.Change {
	case "created":
		return a.printResult(done, "Created the agent %s (%s).", done.Name, done.ID)
	case "updated":
		return a.printResult(done, "The agent %s has a new version, v%d.", done.Name, done.VersionNumber)
	}
	return a.printResult(done, "The agent %s is unchanged, at v%d.", done.Name, done.VersionNumber)
}

func storeAgent(ctx context.Context, c *client.Client, definition map[string]any) (*pushed, error) {
	raw, err := encodeDefinition(definition)
	if err != nil {
		return nil, err
	}
	name, ok := definition["name"].(string)
	if definition["name"] == nil || ok && name == "" {
		return nil, fmt.Errorf("the definition has no name: add 'name: my-agent' or use --name")
	}
	agent, err := c.Agents.Find(ctx, name)
	if !ok || client.IsCode(err, stint.CodeResourceNotFound) { // the server refuses a name that is not a string
		agent, err = c.Agents.Create(ctx, raw)
		if err != nil {
			return nil, err
		}
		return &pushed{Agent: *agent, VersionNumber: 1, Change: "created"}, nil
	}
	if err != nil {
		return nil, err
	}
	v, added, err := c.Agents.CreateVersion(ctx, agent.ID, raw)
	if err != nil {
		return nil, err
	}
	done := &pushed{Agent: *agent, VersionNumber: v.VersionNumber, Change: "unchanged"}
	done.CurrentVersionID, done.Warnings = v.ID, v.Warnings
	if added {
		done.UpdatedAt, done.Change = v.CreatedAt, "updated"
	}
	return done, nil
}

func (a *app) agentList() *cobra.Command {
	list := func(ctx context.Context, c *client.Client) iter.Seq2[stint.Agent, error] { return c.Agents.List(ctx) }
	return listCommand(a, "List the agents", "No agents.", "ID NAME UPDATED", list, func(g stint.Agent) []string {
		return []string{g.ID, g.Name, g.UpdatedAt.String()}
	})
}

func (a *app) agentShow() *cobra.Command {
	return &cobra.Command{
		Use: "show AGENT[@VERSION]", Short: "Show an agent and its definition", Args: exactly("AGENT"),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			name, version := cutVersion(args[0])
			agent, err := findAgent(ctx, c, name)
			if err != nil {
				return err
			}
			v, err := c.Agents.Version(ctx, agent.ID, version)
			if err != nil {
				return err
			}
			return a.showAgent(agent, v)
		}),
	}
}

func (a *app) showAgent(agent *stint.Agent, v *stint.AgentVersion) error {
	if a.json {
		return a.printJSON(struct {
			*stint.Agent
			Version *stint.AgentVersion `json:"version"`
		}{agent, v})
	}
	err := a.printOne(nil,
		"id", agent.ID, "name", agent.Name,
		"version", "v"+strconv.FormatInt(v.VersionNumber, 10)+" ("+v.ID+")",
		"created", agent.CreatedAt.String(), "updated", agent.UpdatedAt.String())
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, v.Definition, "", "  "); err != nil {
		return fmt.Errorf("show the definition: %w", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "\n%s\n", pretty.Bytes())
	return err
}

func (a *app) agentVersions() *cobra.Command {
	return &cobra.Command{
		Use: "versions AGENT", Short: "List the versions of an agent", Args: exactly("AGENT"),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			agent, err := findAgent(ctx, c, args[0])
			if err != nil {
				return err
			}
			return printList(a, c.Agents.Versions(ctx, agent.ID), 0, "No versions.", "ID VERSION CREATED", func(v stint.AgentVersion) []string {
				return []string{v.ID, "v" + strconv.FormatInt(v.VersionNumber, 10), v.CreatedAt.String()}
			})
		}),
	}
}

func (a *app) agentRemove() *cobra.Command {
	return a.each("rm AGENT...", "Remove agents; their runs stay", "removed", func(ctx context.Context, c *client.Client, ref string) (id, name string, err error) {
		agent, err := findAgent(ctx, c, ref)
		if err != nil {
			return "", "", err
		}
		return agent.ID, nameOf(stint.PrefixAgent, ref, agent.Name), c.Agents.Delete(ctx, agent.ID)
	})
}

package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

// candidate returns a candidate with a description.
func candidate(word, description string) string { return word + "\t" + plain(clip(description, 60)) }

// collect returns the candidates of up to limit items. word returns the candidate of an
// item. An error ends the list.
func collect[T any](items iter.Seq2[T, error], limit int, word func(T) string) []string {
	var out []string
	for item, err := range items {
		if err != nil {
			break
		}
		if out = append(out, word(item)); len(out) == limit {
			break
		}
	}
	return out
}

// shortForm returns an ID without its prefix if the user has begun to type it without the
// prefix, because shells drop candidates that do not begin with the typed word.
func shortForm(prefix, id, typed string) string {
	if strings.HasPrefix(prefix, typed) || strings.HasPrefix(typed, prefix) {
		return id
	}
	return strings.TrimPrefix(id, prefix)
}

// last returns the candidate lastRef if the user has begun to type it.
func last(typed string) []string {
	if typed != "" && strings.HasPrefix(lastRef, typed) {
		return []string{lastRef}
	}
	return nil
}

func suggestRuns(ctx context.Context, c *client.Client, _ []string, typed string) []string {
	f := client.RunFilter{PageSize: maxNewest}
	if beginning := stint.PrefixRun + strings.TrimPrefix(typed, stint.PrefixRun); stint.IsIDPrefix(stint.PrefixRun, beginning) {
		f.IDPrefix = beginning
	}
	return append(last(typed), collect(c.Runs.List(ctx, f), maxNewest, func(r stint.RunSummary) string {
		return candidate(shortForm(stint.PrefixRun, r.ID, typed), fmt.Sprintf("%s %s %s", r.AgentName, r.Status, r.Prompt))
	})...)
}

func suggestSessions(ctx context.Context, c *client.Client, _ []string, typed string) []string {
	return append(last(typed), collect(c.Sessions.List(ctx), maxNewest, func(s stint.Session) string {
		return candidate(shortForm(stint.PrefixSession, s.ID, typed), s.AgentName+" "+s.UpdatedAt.String())
	})...)
}

func suggestTokens(ctx context.Context, c *client.Client, _ []string, typed string) []string {
	return collect(c.Tokens.List(ctx), maxNamed, func(t stint.Token) string {
		if typed != "" && strings.HasPrefix(t.ID, typed) {
			return candidate(t.ID, t.Name)
		}
		return candidate(t.Name, t.ID)
	})
}

func suggestSecrets(ctx context.Context, c *client.Client, _ []string, _ string) []string {
	return collect(c.Secrets.List(ctx), maxNamed, func(s stint.Secret) string { return s.Name })
}

// suggestAgents suggests agents, and after an @ the versions of an agent if versions is
// set.
func suggestAgents(versions bool) suggestion {
	return func(ctx context.Context, c *client.Client, _ []string, typed string) []string {
		if ref, _, given := cutRef(typed); given && versions && ref != "" {
			return withPrefix(ref+"@", suggestAgentVersions(ctx, c, []string{ref}, ""))
		}
		return append(last(typed), collect(c.Agents.List(ctx), maxNamed, func(g stint.Agent) string {
			if strings.HasPrefix(typed, stint.PrefixAgent) {
				return candidate(g.ID, g.Name)
			}
			return g.Name
		})...)
	}
}

// suggestAgentVersions suggests the versions of the agent in the first argument.
func suggestAgentVersions(ctx context.Context, c *client.Client, args []string, _ string) []string {
	if len(args) == 0 {
		return nil
	}
	ref, _, _ := cutRef(args[0])
	agent, err := findAgent(ctx, c, ref)
	if err != nil {
		return nil
	}
	return collect(c.Agents.Versions(ctx, agent.ID), maxNewest, func(v stint.AgentVersion) string {
		return candidate(fmt.Sprintf("v%d", v.VersionNumber), v.CreatedAt.String())
	})
}

// suggestTrees suggests volumes or artifacts, and after the separator the versions of one
// if versions is set.
func suggestTrees(kind stint.FileSetKind, versions bool, separator string) suggestion {
	return func(ctx context.Context, c *client.Client, _ []string, typed string) []string {
		rest := strings.TrimPrefix(typed, lastRef)
		i := strings.Index(rest, separator)
		if ref := typed[:len(typed)-len(rest)+max(i, 0)]; versions && i >= 0 && ref != "" {
			return withPrefix(ref+separator, suggestVersions(kind)(ctx, c, []string{ref}, ""))
		}
		return append(last(typed), collect(treesOf(c, kind).List(ctx), maxNamed, func(t stint.FileSet) string {
			if strings.HasPrefix(typed, kind.Prefix()) {
				return candidate(t.ID, t.Name)
			}
			return candidate(t.Name, count(t.FileCount, "file")+", "+bytesText(t.Size))
		})...)
	}
}

// suggestVersions suggests the versions of the volume or artifact in the first argument.
func suggestVersions(kind stint.FileSetKind) suggestion {
	return func(ctx context.Context, c *client.Client, args []string, _ string) []string {
		if len(args) == 0 {
			return nil
		}
		ref, _, _ := cutRef(args[0])
		tree, err := findTree(ctx, c, kind, ref)
		if err != nil {
			return nil
		}
		return collect(treesOf(c, kind).Versions(ctx, tree.ID), maxNewest, func(v stint.FileSetVersion) string {
			return candidate(shortVersion(v.ID), strings.TrimSpace(v.CreatedAt.String()+" "+v.Message))
		})
	}
}

// suggestPaths suggests the files of the version in the first argument, or of the latest
// version if latest is set. Paths that a line of candidates cannot contain are left out.
func suggestPaths(kind stint.FileSetKind, latest bool) suggestion {
	return func(ctx context.Context, c *client.Client, args []string, typed string) []string {
		ref, version := cutVersion(args[0])
		if latest {
			version = "latest"
		}
		tree, err := findTree(ctx, c, kind, ref)
		if err != nil {
			return nil
		}
		page, err := treesOf(c, kind).FilesPage(ctx, tree.ID, version, typed, &client.PageOptions{Limit: stint.MaxLimit})
		if err != nil {
			return nil
		}
		var out []string
		for _, f := range page.Data {
			if f.Kind != "dir" && f.Path == strings.TrimSpace(plain(f.Path)) {
				out = append(out, f.Path)
			}
		}
		return out
	}
}

func withPrefix(prefix string, words []string) []string {
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = prefix + word
	}
	return out
}

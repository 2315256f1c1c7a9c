package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
)

func (a *app) sessions() *cobra.Command {
	return a.parent("sessions", "List and show sessions: runs that continue one another", a.sessionsList(), a.sessionsShow())
}

func (a *app) sessionsList() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "list", Short: "List sessions, newest first", Args: exactly(), Aliases: []string{"ls"}}
	c.Flags().IntVar(&limit, "limit", 20, "maximum number of sessions; 0 for all")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, _ []string) error {
		if limit < 0 {
			return usage(c, "--limit: %d is negative", limit)
		}
		server, err := a.client()
		if err != nil {
			return err
		}
		return printList(a, server.Sessions.List(ctx), limit, "No sessions.", "ID AGENT CREATED UPDATED LAST-RUN CHECKPOINT", func(s stint.Session) []string {
			checkpoint := deref(s.CheckpointID)
			if checkpoint == "" {
				checkpoint = "-"
			}
			return []string{s.ID, s.AgentName, s.CreatedAt.String(), s.UpdatedAt.String(), s.LastRunID, checkpoint}
		})
	})
	return c
}

// sessionDetail is the JSON form of a session with its newest checkpoint and runs.
type sessionDetail struct {
	*stint.Session
	Checkpoint *stint.Checkpoint  `json:"checkpoint"` // nil if none exists
	Runs       []stint.RunSummary `json:"runs"`       // newest first
}

func (a *app) sessionsShow() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "show SESSION", Short: "Show a session, its runs, and how to continue it",
		Long: `Show a session with its newest checkpoint, the artifact version of that
checkpoint, and its runs, newest first.`,
		Args: exactly("SESSION"),
	}
	c.Flags().IntVar(&limit, "limit", 20, "maximum number of runs; 0 for all")
	c.RunE = a.do(func(ctx context.Context, c *cobra.Command, args []string) error {
		if limit < 0 {
			return usage(c, "--limit: %d is negative", limit)
		}
		server, err := a.client()
		if err != nil {
			return err
		}
		id, err := resolve(ctx, server, stint.PrefixSession, args[0])
		if err != nil {
			return err
		}
		detail, err := readSession(ctx, server, id, limit)
		if err != nil {
			return err
		}
		return a.showSession(detail)
	})
	return c
}

// readSession reads a session, its newest checkpoint, and at most limit of its runs; 0
// means all.
func readSession(ctx context.Context, c *client.Client, id string, limit int) (*sessionDetail, error) {
	session, err := c.Sessions.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	detail := &sessionDetail{Session: session, Runs: []stint.RunSummary{}}
	if session.CheckpointID != nil {
		if detail.Checkpoint, err = c.Checkpoints.Get(ctx, *session.CheckpointID); err != nil {
			return nil, err
		}
	}
	for run, err := range c.Runs.List(ctx, client.RunFilter{SessionID: session.ID, PageSize: limit}) {
		if err != nil {
			return nil, err
		}
		if detail.Runs = append(detail.Runs, run); len(detail.Runs) == limit {
			break
		}
	}
	return detail, nil
}

func (a *app) showSession(s *sessionDetail) error {
	fields := []string{
		"id", s.ID, "agent", s.AgentName + " (" + s.AgentID + ")",
		"created", s.CreatedAt.String(), "updated", s.UpdatedAt.String(), "checkpoint", deref(s.CheckpointID),
	}
	if s.Checkpoint != nil {
		fields = append(fields, "artifact", artifactText(s.Checkpoint), "volumes", pairsText(s.Checkpoint.Volumes, "@"))
	}
	fields = append(fields, "continue", "stint continue "+s.ID+" PROMPT")
	if err := a.printOne(s, fields...); err != nil || a.json {
		return err
	}
	if _, err := fmt.Fprintln(a.Stdout); err != nil {
		return err
	}
	return printList(a, withoutErrors(s.Runs), 0, "No runs.", "RUN STATUS CREATED TOOK PROMPT", func(r stint.RunSummary) []string {
		return []string{r.ID, string(r.Status), r.CreatedAt.String(), a.runDuration(r), clip(r.Prompt, 40)}
	})
}

// artifactText returns the artifact of a checkpoint as NAME@VERSION, or "" if it has
// none.
func artifactText(k *stint.Checkpoint) string {
	if k.ArtifactName == nil || k.ArtifactVersion == nil {
		return deref(k.ArtifactName)
	}
	return *k.ArtifactName + "@" + *k.ArtifactVersion
}

func (a *app) checkpoints() *cobra.Command {
	return a.parent("checkpoints", "Show checkpoints: the states that runs left", a.checkpointsShow())
}

func (a *app) checkpointsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show CHECKPOINT", Short: "Show a checkpoint and how to resume it", Args: exactly("CHECKPOINT"),
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := resolveCheckpoint(ctx, c, args[0])
			if err != nil {
				return err
			}
			k, err := c.Checkpoints.Get(ctx, id)
			if err != nil {
				return err
			}
			secrets := slices.Sorted(slices.Values(k.SecretNames))
			return a.printOne(k,
				"id", k.ID, "run", k.RunID, "session", k.SessionID,
				"agent", k.AgentName+" ("+k.AgentID+")", "version", k.AgentVersionID,
				"artifact", artifactText(k), "volumes", pairsText(k.Volumes, "@"),
				"variables", pairsText(k.Variables, "="), "secrets", strings.Join(secrets, ", "),
				"created", k.CreatedAt.String(), "resume", "stint resume "+k.ID+" PROMPT")
		}),
	}
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/definition"
)

// Findings of 'stint secret check'.
const (
	secretUnnamed    = "not named"
	secretNotStored  = "not stored"
	secretOtherAgent = "for other agents"
	secretOtherHost  = "for other hosts"
)

// secretFinding is a secret that the runs of an agent do not receive.
type secretFinding struct {
	Agent   string `json:"agent"`
	Secret  string `json:"secret"`
	Finding string `json:"finding"`
	Add     string `json:"add,omitempty"` // lines to add to the definition
	Message string `json:"message"`
}

func (a *app) secretCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Show which agents may miss which secret, and what to add",
		Long: `Compare the stored secrets with the current definitions of all agents, and show
each secret that the runs of an agent do not receive, and what to change:

  not named         the definition does not name the stored secret; this is
                    correct if the agent does not need it
  not stored        the definition names a secret that each run must contain
  for other agents  the stored secret is limited to other agents
  for other hosts   the stored secret is limited to other hosts

Versions before secrets were named gave every stored secret to every run. After
an upgrade, check shows which agents may miss one.`,
		Args: exactly(),
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			findings, err := findSecrets(ctx, c)
			if err != nil {
				return err
			}
			return printList(a, withoutErrors(findings), 0, "Every agent receives the stored secrets that it may use.", "AGENT SECRET FINDING CHANGE", func(f secretFinding) []string {
				return []string{f.Agent, f.Secret, f.Finding, f.Message}
			})
		}),
	}
}

// findSecrets returns the findings of all agents, sorted by agent and secret.
func findSecrets(ctx context.Context, c *client.Client) ([]secretFinding, error) {
	var stored []stint.Secret
	for s, err := range c.Secrets.List(ctx) {
		if err != nil {
			return nil, err
		}
		stored = append(stored, s)
	}
	var all []secretFinding
	for agent, err := range c.Agents.List(ctx) {
		if err != nil {
			return nil, err
		}
		v, err := c.Agents.Version(ctx, agent.ID, agent.CurrentVersionID)
		if err != nil {
			return nil, err
		}
		var d stint.Definition
		if err := json.Unmarshal(v.Definition, &d); err != nil {
			return nil, fmt.Errorf("read the definition of %s: %w", agent.Name, err)
		}
		all = append(all, checkDefinition(agent.Name, &d, stored)...)
	}
	slices.SortStableFunc(all, func(x, y secretFinding) int {
		return slices.Compare([]string{x.Agent, x.Secret}, []string{y.Agent, y.Secret})
	})
	return all, nil
}

func checkDefinition(agent string, d *stint.Definition, stored []stint.Secret) (findings []secretFinding) {
	named := definition.SecretNames(d)
	for _, s := range stored {
		i := slices.Index(named, s.Name)
		if i >= 0 {
			named = slices.Delete(named, i, i+1)
		}
		if f, ok := checkStoredSecret(agent, d, &s, i >= 0); ok {
			findings = append(findings, f)
		}
	}
	for _, name := range named {
		findings = append(findings, secretFinding{
			Agent: agent, Secret: name, Finding: secretNotStored,
			Message: fmt.Sprintf("stint secret set %s, or give each run --secret %s=VALUE", name, name),
		})
	}
	return findings
}

// checkStoredSecret returns the finding for a stored secret. It returns false if the
// agent's runs receive the secret, or if the secret is neither named nor for the agent.
func checkStoredSecret(agent string, d *stint.Definition, s *stint.Secret, named bool) (secretFinding, bool) {
	f := secretFinding{Agent: agent, Secret: s.Name}
	restricted := *d
	switch {
	case !named && !s.IsFor(agent):
		return f, false
	case !named:
		f.Finding, f.Add = secretUnnamed, fmt.Sprintf("secrets: {%s: {}}", s.Name)
		f.Message = "if needed, add to the definition: " + f.Add
		if len(s.Hosts) == 0 {
			f.Message += fmt.Sprintf(" or, to keep the value outside of the sandbox: secrets: {%s: {hosts: [HOST]}}", s.Name)
		}
	case !s.IsFor(agent):
		f.Finding = secretOtherAgent
		f.Message = fmt.Sprintf("stint secret set %s --agents %s", s.Name, orAny(append(slices.Clone(s.Agents), agent)))
	case len(s.Hosts) > 0 && definition.RestrictSecret(&restricted, s.Name, s.Hosts) != nil:
		f.Finding = secretOtherHost
		f.Message = fmt.Sprintf("change the hosts in the definition, or those of the secret (%s)", orAny(s.Hosts))
	default:
		return f, false
	}
	return f, true
}

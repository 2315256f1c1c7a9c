package sqltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// MigrateSecrets checks that the migration after which definitions name secrets marks the
// secrets, agents, and organisations of the earlier release. downgrade is like that of
// MigrateMounts.
func MigrateSecrets(t testing.TB, s store.Store, downgrade func(statements ...string) store.Store) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret := func(name string) store.Secret {
		return store.Secret{OrgID: Org, Sealed: []byte("sealed"), Secret: stint.Secret{Name: name, CreatedAt: now(), UpdatedAt: now()}}
	}
	version := func(agent, digest string) store.AgentVersion {
		return store.AgentVersion{Digest: digest, AgentVersion: stint.AgentVersion{ID: ids.New(stint.PrefixAgentVersion), AgentID: agent, CreatedAt: now(), Definition: []byte(`{}`)}}
	}
	agent := func(name string) store.Agent {
		v := version(ids.New(stint.PrefixAgent), "1")
		a := store.Agent{OrgID: Org, Agent: stint.Agent{ID: v.AgentID, Name: name, CurrentVersionID: v.ID, CreatedAt: now(), UpdatedAt: now()}}
		check(s.CreateAgent(t.Context(), a, v))
		return a
	}
	notices, err := s.SecretNotices(t.Context())
	check(err)
	if len(notices) > 0 {
		t.Errorf("a new installation has the notices %v", notices)
	}
	m, err := s.EnsureMember(t.Context(), store.Member{OrgID: Org, OrgName: "acme", UserID: "usr_1", UserName: "ann", Role: "owner", CreatedAt: now()})
	check(err)
	_, err = s.EnsureMember(t.Context(), store.Member{OrgID: "org_2", OrgName: "without secrets", UserID: "usr_1", UserName: "ann", Role: "owner", CreatedAt: now()})
	check(err)
	_, err = s.PutSecret(t.Context(), secret("OLD"))
	check(err)
	old, updated := agent("old"), agent("updated")

	s = downgrade(undoFrom(7)...)
	notices, err = s.SecretNotices(t.Context())
	check(err)
	if d := cmp.Diff([]store.SecretNotice{{OrgName: m.OrgName, Secrets: 1, Agents: 2}}, notices); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	notices, err = s.SecretNotices(t.Context())
	check(err)
	if len(notices) > 0 {
		t.Errorf("the second call returned the notices %v", notices)
	}
	_, err = s.PutSecret(t.Context(), secret("NEW"))
	check(err)
	_, added, err := s.AddAgentVersion(t.Context(), Org, version(old.ID, "1"))
	check(err)
	if added {
		t.Error("an unchanged definition was added")
	}
	_, _, err = s.AddAgentVersion(t.Context(), Org, version(updated.ID, "2"))
	check(err)
	agent("new")
	got, err := secretMarks(t, s, "old", "updated", "new")
	check(err)
	if d := cmp.Diff(map[string]bool{"OLD": true, "NEW": false, "old": true, "updated": false, "new": false}, got); d != "" {
		t.Errorf("marked as of the earlier release (-want +got):\n%s", d)
	}
}

// secretMarks returns the marks of all secrets and of the agents with the given names.
func secretMarks(t testing.TB, s store.Store, agents ...string) (map[string]bool, error) {
	marks := map[string]bool{}
	secrets, err := s.Secrets(t.Context(), Org)
	if err != nil {
		return nil, err
	}
	for _, s := range secrets {
		marks[s.Name] = s.Unnamed
	}
	for _, name := range agents {
		a, err := s.AgentByName(t.Context(), Org, name)
		if err != nil {
			return nil, err
		}
		marks[name] = a.UnnamedSecrets
	}
	return marks, nil
}

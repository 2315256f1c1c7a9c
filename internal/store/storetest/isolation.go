package storetest

import (
	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var isolationCases = []testCase{
	{"another organisation cannot read or change rows", otherOrgSeesNothing},
	{"another organisation's lists are empty", func(w *world) {
		b := w.home.ownedRows()
		other := w.tenant("other")
		all := store.Range{Limit: 10}
		runs, err := w.s.RunSummaries(w.ctx, other.org, store.RunFilter{SessionID: b.run.SessionID}, all)
		w.must(err, "RunSummaries")
		w.diff("runs", 0, len(runs))
		activity, err := w.s.Activity(w.ctx, other.org, 10)
		w.must(err, "Activity")
		w.diff("open runs", stint.Activity{}, activity)
		sessions, err := w.s.Sessions(w.ctx, other.org, all)
		w.must(err, "Sessions")
		w.diff("sessions", 0, len(sessions))
		agents, err := w.s.Agents(w.ctx, other.org, all)
		w.must(err, "Agents")
		w.diff("agents", []store.Agent{other.agent}, agents)
		trees, err := w.s.FileSets(w.ctx, other.org, stint.Artifacts, all)
		w.must(err, "FileSets")
		w.diff("artifacts", 0, len(trees))
		tokens, err := w.s.Tokens(w.ctx, other.org, all)
		w.must(err, "Tokens")
		w.diff("tokens", 0, len(tokens))
		w.diff("secrets", 0, len(other.secretNames()))
		versions, err := w.s.FileSetVersions(w.ctx, other.org, b.tree.ID, all)
		w.emptyOrNotFound(len(versions), err, "FileSetVersions")
		agentVersions, err := w.s.AgentVersions(w.ctx, other.org, w.home.agent.ID, all)
		w.emptyOrNotFound(len(agentVersions), err, "AgentVersions")
	}},
}

// ownedRows contains rows of different kinds that belong to one organisation. run has ended
// and has an artifact version and a checkpoint; tree is its artifact.
type ownedRows struct {
	run     store.Run
	pending store.NewRun
	tree    store.FileSet
	token   store.Token
}

func (o *tenant) ownedRows() ownedRows {
	w := o.w
	w.Helper()
	c := o.start()
	r := w.finish(c.Position, w.outcome(stint.Completed, o.withVersion("out", "pages"), o.checkpoint(c.Run)))
	_, err := w.s.PutSecret(w.ctx, o.secret("KEY", "x"))
	w.must(err, "PutSecret")
	return ownedRows{run: r, pending: o.create(), tree: o.artifact("out"), token: o.token("ci", nil)}
}

func otherOrgSeesNothing(w *world) {
	b := w.home.ownedRows()
	org, agent := w.tenant("other").org, w.home.agent
	for _, try := range []struct {
		name string
		do   func() error
	}{
		{"Run", func() error { _, err := w.s.Run(w.ctx, org, b.run.ID); return err }},
		{"Cancel", func() error { _, err := w.s.Cancel(w.ctx, org, b.pending.ID, w.now()); return err }},
		{"Metadata", func() error { _, err := w.s.Metadata(w.ctx, org, b.run.ID); return err }},
		{"ChangeMetadata", func() error {
			_, err := w.s.ChangeMetadata(w.ctx, org, b.run.ID, map[string]*string{"k": ptr("v")})
			return err
		}},
		{"Cancel of an ended run", func() error { _, err := w.s.Cancel(w.ctx, org, b.run.ID, w.now()); return err }},
		{"Session", func() error { _, err := w.s.Session(w.ctx, org, b.run.SessionID); return err }},
		{"Checkpoint", func() error { _, err := w.s.Checkpoint(w.ctx, org, *b.run.CheckpointID); return err }},
		{"Agent", func() error { _, err := w.s.Agent(w.ctx, org, w.home.agent.ID); return err }},
		{"AgentVersion", func() error { _, err := w.s.AgentVersion(w.ctx, org, agent.ID, agent.CurrentVersionID, 0); return err }},
		{"AgentVersion by number", func() error { _, err := w.s.AgentVersion(w.ctx, org, agent.ID, "", 1); return err }},
		{"AddAgentVersion", func() error {
			_, _, err := w.s.AddAgentVersion(w.ctx, org, w.home.nextVersion(agent.ID, "theirs"))
			return err
		}},
		{"DeleteAgent", func() error { return w.s.DeleteAgent(w.ctx, org, agent.ID, w.now()) }},
		{"FileSet", func() error { _, err := w.s.FileSet(w.ctx, org, stint.Artifacts, b.tree.ID); return err }},
		{"FileSetByName", func() error { _, err := w.s.FileSetByName(w.ctx, org, stint.Artifacts, "out"); return err }},
		{"FileSetVersion", func() error {
			_, err := w.s.FileSetVersion(w.ctx, org, b.tree.ID, *b.run.ArtifactVersion, 0)
			return err
		}},
		{"FileSetVersion of the head", func() error { _, err := w.s.FileSetVersion(w.ctx, org, b.tree.ID, "", 0); return err }},
		{"CommitVersion", func() error {
			c := w.home.commit(b.tree.ID, "theirs")
			c.OrgID = org
			_, _, err := w.s.CommitVersion(w.ctx, c)
			return err
		}},
		{"DeleteFileSet", func() error { return w.s.DeleteFileSet(w.ctx, org, stint.Artifacts, b.tree.ID, w.now()) }},
		{"Token", func() error { _, err := w.s.Token(w.ctx, org, b.token.ID); return err }},
		{"RevokeToken", func() error { return w.s.RevokeToken(w.ctx, org, b.token.ID, w.now()) }},
		{"DeleteSecret", func() error { return w.s.DeleteSecret(w.ctx, org, "KEY") }},
	} {
		w.wantErr(try.do(), store.ErrNotFound, try.name)
	}
	w.diff("artifact", b.tree, w.home.artifact("out"))
	w.diff("pending run", b.pending.Run, w.home.run(b.pending.ID))
	w.diff("secrets", []string{"KEY"}, w.home.secretNames())
	got, err := w.s.Agent(w.ctx, w.home.org, agent.ID)
	w.must(err, "Agent")
	w.diff("agent", agent, got)
	_, err = w.s.Token(w.ctx, w.home.org, b.token.ID)
	w.must(err, "Token")
}

func (w *world) emptyOrNotFound(n int, err error, doing string) {
	w.Helper()
	if err != nil {
		w.wantErr(err, store.ErrNotFound, doing)
	}
	w.diff(doing, 0, n)
}

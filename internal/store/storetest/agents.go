package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

var agentCases = []testCase{
	{"CreateAgent stores the agent and its first version", func(w *world) {
		a, v := w.home.agentPair("reviewer")
		w.must(w.s.CreateAgent(w.ctx, a, v), "CreateAgent")
		got, err := w.s.Agent(w.ctx, w.home.org, a.ID)
		w.must(err, "Agent")
		w.diff("agent", a, got)
		got, err = w.s.AgentByName(w.ctx, w.home.org, "reviewer")
		w.must(err, "AgentByName")
		w.diff("agent by name", a, got)
		w.diff("version by identifier", v, w.home.version(a.ID, v.ID, 0))
		w.diff("version by number", v, w.home.version(a.ID, "", 1))
	}},
	{"names are unique in an organisation", func(w *world) {
		w.home.newAgent("reviewer")
		a, v := w.home.agentPair("reviewer")
		w.wantErr(w.s.CreateAgent(w.ctx, a, v), store.ErrExists, "CreateAgent of a taken name")
		_, err := w.s.Agent(w.ctx, w.home.org, a.ID)
		w.wantErr(err, store.ErrNotFound, "Agent after the refusal")
		w.tenant("other").newAgent("reviewer")
	}},
	{"concurrent creation of one name succeeds once", func(w *world) {
		won := make([]bool, 16)
		w.concurrently(len(won), func(i int) error {
			a, v := w.home.agentPair("reviewer")
			err := w.s.CreateAgent(w.ctx, a, v)
			won[i] = err == nil
			if errors.Is(err, store.ErrExists) {
				return nil
			}
			return err
		})
		w.diff("winners", 1, count(won))
	}},
	{"AddAgentVersion numbers the version and moves the current one", func(w *world) {
		a := w.home.newAgent("reviewer")
		next := w.home.nextVersion(a.ID, "two")
		head, added, err := w.s.AddAgentVersion(w.ctx, w.home.org, next)
		w.must(err, "AddAgentVersion")
		next.VersionNumber = 2
		w.diff("added", true, added)
		w.diff("head", next, head)
		got, err := w.s.Agent(w.ctx, w.home.org, a.ID)
		w.must(err, "Agent")
		w.diff("current version", next.ID, got.CurrentVersionID)
		w.diff("created", a.CreatedAt, got.CreatedAt)
		w.diff("updated", next.CreatedAt, got.UpdatedAt)
	}},
	{"a definition equal to the current one is not added", func(w *world) {
		a := w.home.newAgent("reviewer")
		second := w.home.addVersion(a.ID, "two")
		head, added, err := w.s.AddAgentVersion(w.ctx, w.home.org, w.home.nextVersion(a.ID, "two"))
		w.must(err, "AddAgentVersion")
		w.diff("added", false, added)
		w.diff("head", second, head)
		w.home.addVersion(a.ID, "three")
		again := w.home.addVersion(a.ID, "two")
		w.diff("number of a definition that was current before", int64(4), again.VersionNumber)
	}},
	{"concurrent versions have numbers without gaps", func(w *world) {
		a := w.home.newAgent("reviewer")
		numbers := make([]int64, 20)
		w.concurrently(len(numbers), func(i int) error {
			head, added, err := w.s.AddAgentVersion(w.ctx, w.home.org, w.home.nextVersion(a.ID, fmt.Sprint(i)))
			if err == nil && !added {
				return errors.New("not added")
			}
			numbers[i] = head.VersionNumber
			return err
		})
		slices.Sort(numbers)
		for i, n := range numbers {
			w.diff("number", int64(i+2), n)
		}
		got, err := w.s.Agent(w.ctx, w.home.org, a.ID)
		w.must(err, "Agent")
		w.diff("current version", w.home.version(a.ID, "", 21).ID, got.CurrentVersionID)
	}},
	{"concurrent equal definitions are added once", func(w *world) {
		a := w.home.newAgent("reviewer")
		added := make([]bool, 16)
		w.concurrently(len(added), func(i int) (err error) {
			_, added[i], err = w.s.AddAgentVersion(w.ctx, w.home.org, w.home.nextVersion(a.ID, "two"))
			return err
		})
		w.diff("additions", 1, count(added))
	}},
	{"AgentVersion prefers the ID over the number", func(w *world) {
		a := w.home.newAgent("reviewer")
		second := w.home.addVersion(a.ID, "two")
		w.diff("identifier and number", second, w.home.version(a.ID, second.ID, 1))
		for _, ask := range []struct {
			id     string
			number int64
		}{{"", 3}, {w.ids.New(stint.PrefixAgentVersion), 0}, {w.home.agent.CurrentVersionID, 0}} {
			_, err := w.s.AgentVersion(w.ctx, w.home.org, a.ID, ask.id, ask.number)
			w.wantErr(err, store.ErrNotFound, fmt.Sprintf("AgentVersion of %q, %d", ask.id, ask.number))
		}
	}},
	{"AgentVersions are listed newest first", func(w *world) {
		a := w.home.newAgent("reviewer")
		w.home.addVersion(a.ID, "two")
		w.home.addVersion(a.ID, "three")
		list, err := w.s.AgentVersions(w.ctx, w.home.org, a.ID, store.Range{Limit: 2})
		w.must(err, "AgentVersions")
		w.diff("numbers", []int64{3, 2}, []int64{list[0].VersionNumber, list[1].VersionNumber})
	}},
	{"DeleteAgent hides the agent and frees its name", func(w *world) {
		a := w.home.newAgent("reviewer")
		w.must(w.s.DeleteAgent(w.ctx, w.home.org, a.ID, w.now()), "DeleteAgent")
		w.wantErr(w.s.DeleteAgent(w.ctx, w.home.org, a.ID, w.now()), store.ErrNotFound, "DeleteAgent again")
		_, err := w.s.Agent(w.ctx, w.home.org, a.ID)
		w.wantErr(err, store.ErrNotFound, "Agent")
		_, err = w.s.AgentByName(w.ctx, w.home.org, "reviewer")
		w.wantErr(err, store.ErrNotFound, "AgentByName")
		_, _, err = w.s.AddAgentVersion(w.ctx, w.home.org, w.home.nextVersion(a.ID, "two"))
		w.wantErr(err, store.ErrNotFound, "AddAgentVersion")
		list, err := w.s.Agents(w.ctx, w.home.org, store.Range{Limit: 10})
		w.must(err, "Agents")
		w.diff("agents left", []store.Agent{w.home.agent}, list)
		second := w.home.newAgent("reviewer")
		got, err := w.s.AgentByName(w.ctx, w.home.org, "reviewer")
		w.must(err, "AgentByName of the second")
		w.diff("second of that name", second, got)
	}},
	{"runs of a deleted agent remain and continue", func(w *world) {
		a := w.home.newAgent("reviewer")
		n := w.home.create(ofAgent(a))
		w.must(w.s.DeleteAgent(w.ctx, w.home.org, a.ID, w.now()), "DeleteAgent")
		list, err := w.s.RunSummaries(w.ctx, w.home.org, store.RunFilter{AgentID: a.ID}, store.Range{Limit: 10})
		w.must(err, "RunSummaries")
		w.diff("runs of the agent", []stint.RunSummary{n.RunSummary}, list)
		c := w.claimOne(w.worker())
		w.diff("claimed", n.ID, c.Run.ID)
		w.finish(c.Position, w.outcome(stint.Completed))
		w.home.checkRun(n.ID)
	}},
}

func count(flags []bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func (o *tenant) version(agent, id string, number int64) store.AgentVersion {
	o.w.Helper()
	v, err := o.w.s.AgentVersion(o.w.ctx, o.org, agent, id, number)
	o.w.must(err, "AgentVersion")
	return v
}

// nextVersion returns a version of an agent with a definition that contains word. It does
// not store the version.
func (o *tenant) nextVersion(agent, word string) store.AgentVersion {
	return store.AgentVersion{
		AgentVersion: stint.AgentVersion{
			ID: o.w.ids.New(stint.PrefixAgentVersion), AgentID: agent, CreatedAt: o.w.now(),
			Definition: json.RawMessage(fmt.Sprintf(`{"framework":"shell","instructions":%q}`, word)),
		},
		Digest: digest(word), CreatedBy: "user:bee",
	}
}

func (o *tenant) addVersion(agent, word string) store.AgentVersion {
	o.w.Helper()
	head, added, err := o.w.s.AddAgentVersion(o.w.ctx, o.org, o.nextVersion(agent, word))
	o.w.must(err, "AddAgentVersion")
	if !added {
		o.w.Fatalf("AddAgentVersion(%s) added nothing", word)
	}
	return head
}

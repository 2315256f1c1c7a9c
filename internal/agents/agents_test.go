package agents_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/auth"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
)

type world struct {
	*testing.T
	agents *agents.Service
	caller auth.Caller
	other  auth.Caller // a caller of another organisation
	at     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlite.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, at: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	ids := stint.NewIDs(w.now, rand.Reader)
	w.agents = agents.New(agents.Config{Store: s, IDs: ids, Now: w.now})
	for i, c := range []*auth.Caller{&w.caller, &w.other} {
		m, err := s.EnsureMember(t.Context(), store.Member{
			OrgID: ids.New(stint.PrefixOrg), OrgName: fmt.Sprint("org", i), UserID: ids.New(stint.PrefixUser), UserName: "ann",
			Role: auth.RoleOwner, CreatedAt: stint.TimeOf(w.at),
		})
		if err != nil {
			t.Fatal(err)
		}
		*c = auth.Caller{OrgID: m.OrgID, UserID: m.UserID, UserName: m.UserName, Scopes: stint.Scopes}
	}
	return w
}

func (w *world) now() time.Time { return w.at }

func (w *world) create(raw string) stint.Agent {
	w.Helper()
	w.at = w.at.Add(time.Second)
	a, err := w.agents.Create(w.Context(), w.caller, []byte(raw))
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*stint.Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

func (w *world) diff(what string, want, got any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	a := w.create(`{"name":"reviewer","framework":"shell"}`)
	w.diff("agent", stint.Agent{ID: a.ID, Name: "reviewer", CurrentVersionID: a.CurrentVersionID, CreatedAt: stint.TimeOf(w.at), UpdatedAt: stint.TimeOf(w.at)}, a)
	got, err := w.agents.Get(t.Context(), w.caller.OrgID, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.diff("agent read back", a, got)
	v, err := w.agents.Version(t.Context(), w.caller.OrgID, a.ID, "latest")
	if err != nil {
		t.Fatal(err)
	}
	w.diff("version", stint.AgentVersion{
		ID: a.CurrentVersionID, AgentID: a.ID, VersionNumber: 1, CreatedAt: a.CreatedAt,
		Definition: json.RawMessage(`{"framework":"shell","name":"reviewer"}`),
	}, v)
}

func TestCreateChecksDefinition(t *testing.T) {
	w := newWorld(t)
	w.create(`{"name":"taken","framework":"shell"}`)
	for raw, want := range map[string]string{
		`{"framework":"shell"}`: stint.CodeMissingParameter,
		`{"name":"reviewer","framework":"shell","output":{"schema":{"$ref":"https://example.com/s"}}}`: stint.CodeInvalidParameter,
		`{"name":"Reviewer","framework":"shell"}`:                                                      stint.CodeInvalidParameter,
		`{"name":"reviewer"}`: stint.CodeMissingParameter,
		`{"name":"reviewer","framework":"shell","promt":"x"}`:  stint.CodeInvalidParameter,
		`{"name":"reviewer","framework":"shell","Timeout":""}`: stint.CodeInvalidParameter,
		`{"name":"taken","framework":"shell"}`:                 stint.CodeResourceAlreadyExists,
		`[]`:                                                   stint.CodeInvalidParameter,
		`{`:                                                    stint.CodeInvalidParameter,
	} {
		if _, err := w.agents.Create(t.Context(), w.caller, []byte(raw)); codeOf(err) != want {
			t.Errorf("%s returned %v, want %s", raw, err, want)
		}
	}
}

func TestAddVersion(t *testing.T) {
	w := newWorld(t)
	a := w.create(`{"name":"reviewer","framework":"shell","timeout":"5m"}`)
	for _, c := range []struct {
		raw    string
		added  bool
		number int64
	}{
		{`{"timeout":"5m","framework":"shell"}`, false, 1},
		{`{"framework":"shell","name":"reviewer","timeout":"5m","volumes":null}`, false, 1},
		{`{"framework":"shell","timeout":"6m"}`, true, 2},
		{`{"framework":"shell","timeout":"5m"}`, true, 3},
	} {
		v, added, err := w.agents.AddVersion(t.Context(), w.caller, a.ID, []byte(c.raw))
		if err != nil || added != c.added || v.VersionNumber != c.number || v.Definition != nil {
			t.Errorf("%s returned %+v, %v, %v, want number %d, added %v", c.raw, v, added, err, c.number, c.added)
		}
	}
	got, err := w.agents.Get(t.Context(), w.caller.OrgID, a.ID)
	if err != nil || got.CurrentVersionID == a.CurrentVersionID {
		t.Errorf("the current version is unchanged: %+v, %v", got, err)
	}
	for raw, want := range map[string]string{
		`{"name":"another","framework":"shell"}`: stint.CodeInvalidParameter,
		`{"framework":"cobol"}`:                  stint.CodeInvalidParameter,
	} {
		if _, _, err := w.agents.AddVersion(t.Context(), w.caller, a.ID, []byte(raw)); codeOf(err) != want {
			t.Errorf("%s returned %v, want %s", raw, err, want)
		}
	}
}

func TestVersionReferences(t *testing.T) {
	w := newWorld(t)
	a := w.create(`{"name":"reviewer","framework":"shell"}`)
	second, _, err := w.agents.AddVersion(t.Context(), w.caller, a.ID, []byte(`{"framework":"assistant"}`))
	if err != nil {
		t.Fatal(err)
	}
	other := w.create(`{"name":"another","framework":"shell"}`)
	for reference, want := range map[string]string{
		"": second.ID, "latest": second.ID, "v2": second.ID, "2": second.ID, second.ID: second.ID,
		"v1": a.CurrentVersionID, "1": a.CurrentVersionID, a.CurrentVersionID: a.CurrentVersionID,
	} {
		v, err := w.agents.Version(t.Context(), w.caller.OrgID, a.ID, reference)
		if err != nil || v.ID != want {
			t.Errorf("%q returned %q, %v, want %q", reference, v.ID, err, want)
		}
	}
	for _, reference := range []string{"v3", "0", "v0", "-1", "+1", "01", "v", "V1", "Latest", "1 ", "v1_x", "9223372036854775808", "\x00", other.CurrentVersionID} {
		if v, err := w.agents.Version(t.Context(), w.caller.OrgID, a.ID, reference); codeOf(err) != stint.CodeResourceNotFound {
			t.Errorf("%q returned %q, %v, want not found", reference, v.ID, err)
		}
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	a, b := w.create(`{"name":"a","framework":"shell"}`), w.create(`{"name":"bee","framework":"shell"}`)
	org := w.caller.OrgID
	first := store.Range{Limit: 10}
	for name, want := range map[string][]stint.Agent{"": {b, a}, "bee": {b}, "BEE": {b}, "be": nil, "b ee": nil, "\x00": nil} {
		got, err := w.agents.List(t.Context(), org, name, first)
		if err != nil {
			t.Errorf("list of %q: %v", name, err)
		}
		w.diff("list of "+name, want, got)
	}
	got, err := w.agents.List(t.Context(), org, "bee", store.Range{After: store.Cursor{At: b.CreatedAt, ID: b.ID}, Limit: 10})
	if err != nil || len(got) != 0 {
		t.Errorf("the second page of a list by name is %v, %v", got, err)
	}
	versions, err := w.agents.Versions(t.Context(), org, a.ID, first)
	if err != nil || len(versions) != 1 || versions[0].Definition != nil {
		t.Errorf("versions are %v, %v", versions, err)
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	a := w.create(`{"name":"reviewer","framework":"shell"}`)
	if err := w.agents.Delete(t.Context(), w.caller, a.ID); err != nil {
		t.Fatal(err)
	}
	w.checkNotFound(w.caller, a.ID)
	if again := w.create(`{"name":"reviewer","framework":"shell"}`); again.ID == a.ID {
		t.Error("the second agent with the name has the ID of the first")
	}
}

func TestAgentsOfOtherOrganisations(t *testing.T) {
	w := newWorld(t)
	a := w.create(`{"name":"reviewer","framework":"shell"}`)
	for _, id := range []string{a.ID, "", "ag_", "agent", a.CurrentVersionID, a.ID + "0", "\x00"} {
		w.checkNotFound(w.other, id)
	}
	if _, err := w.agents.ByName(t.Context(), w.other.OrgID, "reviewer"); codeOf(err) != stint.CodeResourceNotFound {
		t.Errorf("another organisation found the name: %v", err)
	}
}

// checkNotFound checks that every method returns resource_not_found for an agent ID.
func (w *world) checkNotFound(c auth.Caller, id string) {
	w.Helper()
	ctx := w.Context()
	_, get := w.agents.Get(ctx, c.OrgID, id)
	_, _, add := w.agents.AddVersion(ctx, c, id, []byte(`{"framework":"shell"}`))
	_, versions := w.agents.Versions(ctx, c.OrgID, id, store.Range{Limit: 1})
	_, version := w.agents.Version(ctx, c.OrgID, id, "latest")
	for verb, err := range map[string]error{
		"get": get, "add": add, "versions": versions, "version": version, "delete": w.agents.Delete(ctx, c, id),
	} {
		if codeOf(err) != stint.CodeResourceNotFound {
			w.Errorf("%s of %q returned %v, want not found", verb, id, err)
		}
	}
}

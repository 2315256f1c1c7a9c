package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
)

// TestWriterUsesIndexes checks that the writer's statements do not scan tables. It covers the
// statements that the writer has run, so it first creates a run that mounts a volume and
// removes versions.
func TestWriterUsesIndexes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	at := stint.TimeOf(time.Now())
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	commit := func(tree string, n int) store.FileSetVersion {
		v, _, err := s.CommitVersion(t.Context(), store.Commit{
			OrgID: sqltest.Org, FileSetID: tree, Suffix: fmt.Sprintf("%020d", n), Digest: fmt.Sprint(tree, n), CreatedAt: at,
		})
		check(err)
		return v
	}
	var mounted store.FileSetVersion
	for _, name := range []string{"data", "gone", "empty"} {
		tree := store.FileSet{OrgID: sqltest.Org, FileSet: stint.FileSet{ID: "vol_" + name, Name: name, Kind: stint.Volumes, CreatedAt: at, UpdatedAt: at}}
		check(s.CreateFileSet(t.Context(), tree))
		if name != "empty" {
			mounted = commit(tree.ID, 1)
			commit(tree.ID, 2)
			commit(tree.ID, 3)
		}
		if name == "data" {
			n := sqltest.NewRun(1)
			n.Volumes = map[string]string{name: mounted.ID}
			_, err := s.CreateRun(t.Context(), n, nil)
			check(err)
			_, err = s.Cancel(t.Context(), sqltest.Org, n.ID, at)
			check(err)
			check(s.DeleteVersion(t.Context(), sqltest.Org, tree.ID, mounted.ID))
		} else {
			check(s.DeleteFileSet(t.Context(), sqltest.Org, stint.Volumes, tree.ID, at))
		}
	}
	n, err := s.PruneVersions(t.Context(), store.Retention{Last: 1})
	if check(err); n != 4 {
		t.Errorf("%d versions were removed, want 4", n)
	}
	db, err := sql.Open("sqlite", "file:"+s.path)
	check(err)
	defer db.Close()
	checked := 0
	for _, query := range s.WriterStatements() {
		if !strings.HasPrefix(query, "delete") && !strings.HasPrefix(query, "insert") && !strings.HasPrefix(query, "update") {
			continue
		}
		checked++
		for _, step := range plan(t, db, query) {
			if strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" {
				t.Errorf("%s\n%s", step, query)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d statements were checked", checked)
	}
}

// TestIDPrefixUsesPrimaryKey checks that lists read the range of a prefix of IDs instead
// of all rows of the organisation.
func TestIDPrefixUsesPrimaryKey(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := store.Range{IDPrefix: "prefix_01k", Limit: 2}
	_, err := s.RunSummaries(t.Context(), sqltest.Org, store.RunFilter{}, r)
	_, err2 := s.Sessions(t.Context(), sqltest.Org, r)
	_, err3 := s.Agents(t.Context(), sqltest.Org, r)
	_, err4 := s.FileSets(t.Context(), sqltest.Org, stint.Volumes, r)
	_, err5 := s.Tokens(t.Context(), sqltest.Org, r)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	checked := 0
	for _, query := range s.ReaderStatements() {
		if !strings.Contains(query, "id >= $") {
			continue
		}
		checked++
		steps := strings.Join(plan(t, db, query), "\n")
		if !strings.Contains(steps, "(id>? AND id<?)") {
			t.Errorf("%s\n%s", steps, query)
		}
	}
	if checked != 5 {
		t.Errorf("%d statements were checked", checked)
	}
}

// TestLiveReadsUseIndexes checks that the reads of live tables and metrics do not scan
// runs that have ended, or samples.
func TestLiveReadsUseIndexes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, err := s.CreateRun(t.Context(), sqltest.NewRun(1), nil); err != nil { // Activity reads pending runs only if there are any
		t.Fatal(err)
	}
	_, activity := s.Activity(t.Context(), sqltest.Org, 10)
	_, load := s.Load(t.Context())
	_, orgs := s.OrgLoads(t.Context(), 10)
	if err := errors.Join(activity, load, orgs); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	queries := s.ReaderStatements()
	if len(queries) < 5 {
		t.Errorf("only %d statements were checked", len(queries))
	}
	for _, query := range queries {
		for _, step := range plan(t, db, query) {
			if strings.HasPrefix(step, "SCAN runs") || strings.HasPrefix(step, "SCAN m") || strings.HasPrefix(step, "SCAN p") {
				t.Errorf("%s\n%s", step, query)
			}
		}
	}
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// plan returns the steps of SQLite's query plan for a statement.
func plan(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	numbers := map[string]bool{}
	for _, p := range parameter.FindAllString(query, -1) {
		numbers[p] = true
	}
	rows, err := db.QueryContext(t.Context(), "explain query plan "+query, make([]any, len(numbers))...)
	if err != nil {
		t.Fatalf("%v: %s", err, query)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

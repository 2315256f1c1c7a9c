package sqlite_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
	"github.com/stint-dev/stint/internal/store/sqlite"
	"github.com/stint-dev/stint/internal/store/sqlstore"
	"github.com/stint-dev/stint/internal/store/sqlstore/sqltest"
)

func TestReopenKeepsData(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	runs := sqltest.StartRuns(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.path)
	head, status, err := again.Head(t.Context(), runs[0].RunID)
	if err != nil || head != 2 || status != stint.Running {
		t.Errorf("head %d, status %s, %v", head, status, err)
	}
}

func TestFileModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "odd ?#%41 name.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	sqltest.StartRuns(t, s, 1)
	for _, p := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	db, err := sql.Open("sqlite", "file:"+s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var mode string
	if err := db.QueryRowContext(t.Context(), `pragma journal_mode`).Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q, %v", mode, err)
	}
}

func TestOpenInMissingFolder(t *testing.T) {
	t.Parallel()
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "no", "such.db"), sqlite.Options{}); err == nil {
		t.Error("Open accepted a file in a folder that does not exist")
	}
}

func TestOpenInvalidFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil {
		t.Error("Open accepted a file that is not a database")
	}
}

// TestFailedTransactionDoesNotAffectOthers checks that transactions succeed if another
// transaction that shares their commit fails.
func TestFailedTransactionDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	runs := sqltest.StartRuns(t, s, 32)
	var callers sync.WaitGroup
	for i, at := range runs {
		callers.Go(func() {
			for k := range 20 {
				if i%4 == 3 { // this transaction fails after it stored the session
					if err := sqltest.CreateDuplicate(t, s, at.RunID); err == nil {
						t.Error("a run was stored twice")
					}
					continue
				}
				head, err := s.Append(t.Context(), at, sqltest.Batch(fmt.Sprint(i, k)))
				if err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				at.After = head
			}
		})
	}
	callers.Wait()
	for i, at := range runs {
		want := int64(22)
		if i%4 == 3 {
			want = 2
		}
		if head, _, err := s.Head(t.Context(), at.RunID); err != nil || head != want {
			t.Errorf("run %d: head %d, want %d, %v", i, head, want, err)
		}
	}
	list, err := s.Sessions(t.Context(), sqltest.Org, store.Range{Limit: 1000})
	if err != nil || len(list) != len(runs) {
		t.Errorf("%d sessions, want %d: a failed transaction was not rolled back (%v)", len(list), len(runs), err)
	}
}

func TestPanicRollsBack(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	at := sqltest.StartRuns(t, s, 1)[0]
	err := s.Do(t.Context(), func(ctx context.Context, q sqlstore.Querier) error {
		if _, err := q.ExecContext(ctx, `update runs set priority = 9`); err != nil {
			return err
		}
		panic("boom")
	})
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("Do returned %v, want the panic", err)
	}
	r, err := s.Run(t.Context(), sqltest.Org, at.RunID)
	if err != nil || r.Priority != 0 {
		t.Errorf("priority %d, %v: the transaction that panicked was not rolled back", r.Priority, err)
	}
	if _, err := s.Append(t.Context(), at, sqltest.Batch("x")); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}

// TestFailedCommitFailsAllTransactions checks that a failed commit rolls back all
// transactions that share it and returns the error to each caller, and that the writer
// commits later transactions.
func TestFailedCommitFailsAllTransactions(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	at := sqltest.StartRuns(t, s, 1)[0]
	entered, release := make(chan struct{}), make(chan struct{})
	var callers sync.WaitGroup
	callers.Go(func() {
		err := s.Do(t.Context(), func(ctx context.Context, q sqlstore.Querier) error {
			close(entered)
			<-release
			// SQLite then checks foreign keys at the commit, so the statement itself succeeds.
			if _, err := q.ExecContext(ctx, `pragma defer_foreign_keys = on`); err != nil {
				return err
			}
			_, err := q.ExecContext(ctx, `insert into members (org_id, user_id, role, created_at) values ('org_x', 'usr_x', 'owner', 0)`)
			return err
		})
		if err == nil {
			t.Error("a member without an organisation was stored")
		}
	})
	<-entered
	appended := make(chan error, 1)
	callers.Go(func() {
		_, err := s.Append(t.Context(), at, sqltest.Batch("x"))
		appended <- err
	})
	close(release)
	callers.Wait()
	want := int64(2)
	if err := <-appended; err == nil { // the append was part of the next commit
		want = 3
	}
	if head, _, err := s.Head(t.Context(), at.RunID); err != nil || head != want {
		t.Errorf("head %d, want %d, %v", head, want, err)
	}
	at.After = want
	if _, err := s.Append(t.Context(), at, sqltest.Batch("y")); err != nil {
		t.Errorf("after the failed commit: %v", err)
	}
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	at := sqltest.StartRuns(t, s, 1)[0]
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Append(t.Context(), at, sqltest.Batch("x")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Append returned %v", err)
	}
}

func TestFullDiskIsUnavailable(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	at := sqltest.StartRuns(t, s, 1)[0]
	// When the database reaches this limit, SQLite returns the error for a full disk.
	err := s.Do(t.Context(), func(ctx context.Context, q sqlstore.Querier) error {
		_, err := q.ExecContext(ctx, `pragma max_page_count = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		head, err := s.Append(t.Context(), at, sqltest.Batch(strings.Repeat(rand.Text(), 1000)))
		if err == nil {
			at.After = head
			continue
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Append returned %v", err)
		}
		break
	}
	if head, _, err := s.Head(t.Context(), at.RunID); err != nil || head != at.After {
		t.Errorf("head %d, want %d, %v", head, at.After, err)
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	runs := sqltest.StartRuns(t, s, 5)
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), path); err == nil {
		t.Error("a backup replaced a file that existed")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	c := open(t, path)
	if err := c.IntegrityCheck(t.Context()); err != nil {
		t.Error(err)
	}
	for _, at := range runs {
		if head, _, err := c.Head(t.Context(), at.RunID); err != nil || head != 2 {
			t.Errorf("head %d, %v", head, err)
		}
	}
}

func TestIntegrityCheckFindsDamage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	sqltest.StartRuns(t, s, 200)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for at := info.Size() / 2; at < info.Size()/2+8*4096; at += 64 {
		if _, err := f.WriteAt([]byte("damage"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(t.Context(), s.path, sqlite.Options{})
	if err != nil {
		return // Open found the damage
	}
	defer again.Close()
	if err := again.IntegrityCheck(t.Context()); err == nil {
		t.Error("damage was not found")
	}
}

const crashFile = "STINT_TEST_CRASH_FILE"

// TestCrash repeatedly kills a process that appends. It checks that all acknowledged events
// are stored in order and that the database file is not damaged. If the environment variable
// crashFile is set, the test runs as the process that appends.
func TestCrash(t *testing.T) {
	if path := os.Getenv(crashFile); path != "" {
		appendForever(t, path)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "crash.db")
	acked := make(map[string]int64)
	for n := range 6 {
		crash(t, path, 200+100*n, acked)
		s := open(t, path)
		if err := s.IntegrityCheck(t.Context()); err != nil {
			t.Fatalf("crash %d: %v", n, err)
		}
		for run, want := range acked {
			read := int64(0)
			for {
				events, err := s.Events(t.Context(), run, read, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				if len(events) == 0 {
					break
				}
				for _, e := range events {
					if read++; e.Seq != read {
						t.Fatalf("crash %d: run %s has event %d at position %d", n, run, e.Seq, read)
					}
				}
			}
			if read < want {
				t.Errorf("crash %d: run %s has %d events, %d were acknowledged", n, run, read, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acked) == 0 {
		t.Error("nothing was acknowledged")
	}
}

// crash starts a child process that appends, and kills it after n acknowledgements. It
// stores the last acknowledged position of each run in acked.
func crash(t *testing.T, path string, n int, acked map[string]int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestCrash$")
	cmd.Env = append(os.Environ(), crashFile+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); {
		run, head, ok := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseInt(head, 10, 64)
		if !ok || err != nil || !strings.HasPrefix(run, stint.PrefixRun) {
			t.Errorf("unexpected output of the child: %s", lines.Text())
			continue
		}
		acked[run] = number
		if seen++; seen == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child exited before it was killed")
	}
}

func appendForever(t *testing.T, path string) {
	s := open(t, path)
	runs := sqltest.StartRuns(t, s, 16)
	var out sync.Mutex // guards standard output
	var callers sync.WaitGroup
	for _, at := range runs {
		callers.Go(func() {
			for {
				head, err := s.Append(t.Context(), at, sqltest.Batch("x", "y"))
				if err != nil {
					t.Error(err)
					return
				}
				at.After = head
				out.Lock()
				fmt.Println(at.RunID, head)
				out.Unlock()
			}
		})
	}
	callers.Wait()
}

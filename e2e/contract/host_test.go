package contract_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/testkit/apitest"
)

// host is a running service with its own data folder.
type host struct {
	url, socket string
	data        string
	database    string // URL; empty for SQLite in data
	log         *logBuffer
	tenants     atomic.Int64
}

// starting serialises starts, because opening the login socket changes the umask of
// the process.
var starting sync.Mutex

// serve starts a service and stops it after the test. database is a URL, or empty for
// SQLite. Each function in change modifies the configuration before the start.
func serve(t *testing.T, database string, change ...func(*config.Config)) *host {
	t.Helper()
	base, err := os.MkdirTemp("", "stint-contract-")
	check(t, err)
	c := config.Default()
	c.Data, c.Listen, c.Database = filepath.Join(base, "data"), "127.0.0.1:0", database
	c.Drain = 100 * time.Millisecond
	for _, f := range change {
		f(&c)
	}
	h := &host{data: c.Data, database: database, log: &logBuffer{}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan app.Info, 1), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	starting.Lock()
	go func() {
		ended <- app.Run(ctx, c, app.Options{Logger: log, Ready: func(i app.Info) { ready <- i }})
	}()
	select {
	case info := <-ready:
		h.url, h.socket = info.URL, info.Socket
	case err := <-ended:
		ended <- err
	}
	starting.Unlock()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the service ended with: %v", err)
		}
		check(t, os.RemoveAll(base))
		if t.Failed() {
			t.Logf("the service's log:\n%s", h.log)
		}
	})
	if h.url == "" {
		t.FailNow()
	}
	return h
}

// logBuffer keeps the last 16 KiB of a log.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-16<<10):]
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// login creates a token for a user of an organisation through the socket in the data
// folder, and returns the token.
func (h *host) login(t testing.TB, org, user string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
	}}
	defer transport.CloseIdleConnections()
	body := fmt.Sprintf(`{"org":%q,"user":%q,"name":"contract","expiresInDays":1}`, org, user)
	res, err := (&http.Client{Transport: transport}).Post("http://socket/login", "application/json", strings.NewReader(body))
	check(t, err)
	defer res.Body.Close()
	var response struct {
		Token string `json:"token"`
		Error string `json:"error"`
	}
	decode(t, readAll(t, res.Body), &response)
	if response.Token == "" {
		t.Fatalf("login: %s %s", res.Status, response.Error)
	}
	return response.Token
}

// tenant creates an organisation with the owner ann and a shell agent called "shell".
func (h *host) tenant(t *testing.T) *tenant {
	t.Helper()
	w := &tenant{T: t, host: h, org: fmt.Sprintf("org-%d", h.tenants.Add(1)), client: apitest.Client(t)}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.token = h.login(t, w.org, "ann")
	w.shell = w.agent("shell", nil)
	return w
}

// execute executes a statement with the arguments $1, $2, … directly in the database.
// It ends the test unless the statement changes exactly one row.
func (h *host) execute(t testing.TB, statement string, args ...any) {
	t.Helper()
	driver, source := "pgx", h.database
	if source == "" {
		driver, source = "sqlite", "file:"+filepath.Join(h.data, "stint.db")+"?_pragma=busy_timeout(20000)"
	}
	db, err := sql.Open(driver, source)
	check(t, err)
	defer db.Close()
	done, err := db.ExecContext(t.Context(), statement, args...)
	check(t, err)
	n, err := done.RowsAffected()
	check(t, err)
	if n != 1 {
		t.Fatalf("%s changed %d rows", statement, n)
	}
}

// tenant is an organisation and an HTTP client for it.
type tenant struct {
	*testing.T
	host   *host
	client *http.Client
	org    string
	token  string // token of the organisation's owner
	shell  stint.Agent
}

// other creates another organisation on the same host.
func (w *tenant) other() *tenant {
	w.Helper()
	return w.host.tenant(w.T)
}

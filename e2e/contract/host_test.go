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

// host is a served installation.
type host struct {
	url, socket string
	data        string
	database    string // URL; empty for SQLite in data
	log         *logged
	worlds      atomic.Int64
}

// starting keeps starts apart: opening the login socket changes the umask of
// the process.
var starting sync.Mutex

// serve starts the service on a database and stops it after the test.
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
	h := &host{data: c.Data, database: database, log: &logged{}}
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

// logged keeps the last of what was logged.
type logged struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-16<<10):]
	return len(p), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// login makes a token through the data folder's socket.
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
	var answer struct {
		Token string `json:"token"`
		Error string `json:"error"`
	}
	decode(t, readAll(t, res.Body), &answer)
	if answer.Token == "" {
		t.Fatalf("login: %s %s", res.Status, answer.Error)
	}
	return answer.Token
}

// world makes an organisation with a shell agent called "shell".
func (h *host) world(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, host: h, org: fmt.Sprintf("org-%d", h.worlds.Add(1)), client: apitest.Client(t)}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.token = h.login(t, w.org, "ann")
	w.shell = w.agent("shell", nil)
	return w
}

// execute changes the database behind the service's back. The statement has
// its arguments as $1, $2 …
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

// world is an organisation and a client of it.
type world struct {
	*testing.T
	host   *host
	client *http.Client
	org    string
	token  string // of its owner
	shell  stint.Agent
}

// other is a world of another organisation.
func (w *world) other() *world {
	w.Helper()
	return w.host.world(w.T)
}

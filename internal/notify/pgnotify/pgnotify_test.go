package pgnotify_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/notifytest"
	"github.com/stint-dev/stint/internal/notify/pgnotify"
	"github.com/stint-dev/stint/internal/testkit/pgtest"
)

// waitLimit is the time after which a wait fails.
const waitLimit = time.Minute

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T, url string) *pgnotify.Bus {
	t.Helper()
	b, err := pgnotify.New(t.Context(), url, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func subscribe(t *testing.T, b notify.Bus, topic string) <-chan struct{} {
	t.Helper()
	wake, cancel := b.Subscribe(topic)
	t.Cleanup(cancel)
	return wake
}

func await(t *testing.T, wake <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(waitLimit):
		t.Fatalf("%s: no wake-up within %v", what, waitLimit)
	}
}

// listener returns a connection that receives the notifications of all buses.
func listener(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := connect(t, url)
	execute(t, conn, "listen stint")
	return conn
}

func hear(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatalf("waiting for a notification: %v", err)
	}
	return n.Payload
}

func TestTwoProcesses(t *testing.T) {
	notifytest.Run(t, func(t *testing.T) (publisher, subscriber notify.Bus) {
		url := pgtest.URL(t)
		return open(t, url), open(t, url)
	})
}

func TestOneProcess(t *testing.T) {
	notifytest.Run(t, func(t *testing.T) (publisher, subscriber notify.Bus) {
		b := open(t, pgtest.URL(t))
		return b, b
	})
}

func TestReconnect(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	publisher, subscriber := open(t, url), open(t, url)
	one, two := subscribe(t, subscriber, "one"), subscribe(t, subscriber, "two")
	for range 2 {
		terminate(t, url, 4)
		await(t, one, "listening again")
		await(t, two, "listening again")
		publisher.Publish("one") // the connection that sends is broken, too
		await(t, one, "published after the break")
	}
}

// terminate ends connections of the buses to the database until it has ended want
// connections.
func terminate(t *testing.T, url string, want int) {
	t.Helper()
	admin := connect(t, url)
	const kill = `select count(pg_terminate_backend(pid)) from pg_stat_activity
		where application_name = 'stint notify' and datname = current_database()`
	for deadline := time.Now().Add(waitLimit); want > 0; {
		var killed int
		if err := admin.QueryRow(t.Context(), kill).Scan(&killed); err != nil {
			t.Fatal(err)
		}
		if killed == 0 && time.Now().After(deadline) {
			t.Fatalf("the buses did not open %d connections", want)
		}
		want -= killed
	}
}

func TestServerCrash(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t, "")
	url := cluster.URL("postgres")
	publisher, subscriber := open(t, url), open(t, url)
	own, other := subscribe(t, publisher, "a"), subscribe(t, subscriber, "a")
	if err := cluster.StopImmediate(); err != nil {
		t.Fatal(err)
	}
	publisher.Publish("a")
	await(t, own, "the same process while the server is down")
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, other, "the other process after the crash")
}

func TestPublicationsAreBatched(t *testing.T) {
	t.Parallel()
	const publications = 50_000
	url := pgtest.URL(t)
	publisher, ear := open(t, url), listener(t, url)
	for i := range publications {
		publisher.Publish(fmt.Sprint("run:", i%1000))
	}
	publisher.Publish("last")
	heard := 1
	for payload := hear(t, ear); !strings.Contains(payload, "last"); payload = hear(t, ear) {
		if len(payload) > 7000 {
			t.Fatalf("payload has %d bytes", len(payload))
		}
		heard++
	}
	if heard > publications/10 {
		t.Errorf("%d publications caused %d notifications", publications, heard)
	}
}

func TestTooManyTopicsWakeAll(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t, "")
	url := cluster.URL("postgres")
	ear := listener(t, url)
	execute(t, ear, "create role talker login")
	publisher := open(t, strings.Replace(url, "postgres@", "talker@", 1))
	execute(t, ear, "alter role talker nologin")
	terminate(t, url, 2)
	for i := range 20_000 { // more than the outbox stores
		publisher.Publish(fmt.Sprint("topic ", i))
	}
	execute(t, ear, "alter role talker login")
	// The topics that were being sent when the connection broke come first.
	for !strings.HasSuffix(hear(t, ear), " *") {
	}
}

func execute(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestUnknownPayloadsWakeAll(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	wake := subscribe(t, open(t, url), "a")
	admin := connect(t, url)
	for _, payload := range []string{"x *", "x %zz", "newer a"} {
		execute(t, admin, "select pg_notify('stint', $1)", payload)
		await(t, wake, payload)
	}
}

func TestCloseFlushes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	publisher := open(t, url+"&synchronous_commit=off") // otherwise a commit may wait for the disk longer than Close waits
	ear := listener(t, url)
	publisher.Publish("first")
	hear(t, ear)
	publisher.Publish("second") // within sendInterval of the first
	if err := publisher.Close(); err != nil {
		t.Fatal(err)
	}
	// "first" may be sent again, if Close interrupted its acknowledgement.
	if payload := hear(t, ear); !strings.Contains(payload+" ", " second ") {
		t.Errorf("received %q", payload)
	}
}

func TestNewWithoutServer(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"no server":   "postgres://someone:hunter2secret@/db?host=" + t.TempDir(),
		"bad address": "postgres://someone:hunter2secret@host:port/db",
	} {
		_, err := pgnotify.New(t.Context(), address, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("%s: the error contains the password: %v", name, err)
		}
	}
}

func BenchmarkLatency(b *testing.B) {
	url := pgtest.URL(b)
	logger := slog.New(slog.DiscardHandler)
	var buses [2]*pgnotify.Bus
	for i := range buses {
		var err error
		if buses[i], err = pgnotify.New(b.Context(), url, logger); err != nil {
			b.Fatal(err)
		}
		defer buses[i].Close()
	}
	wake, cancel := buses[1].Subscribe("a")
	defer cancel()
	for b.Loop() {
		buses[0].Publish("a")
		<-wake
	}
}

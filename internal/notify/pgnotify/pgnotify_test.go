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

// patience is how long something may take before a test gives it up.
const patience = time.Minute

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
	case <-time.After(patience):
		t.Fatalf("%s: no wake-up within %v", what, patience)
	}
}

// listener hears what the buses on a database say.
func listener(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := connect(t, url)
	execute(t, conn, "listen stint")
	return conn
}

func hear(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

func TestABrokenConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	publisher, subscriber := open(t, url), open(t, url)
	one, two := subscribe(t, subscriber, "one"), subscribe(t, subscriber, "two")
	for range 2 {
		terminate(t, url, 4)
		await(t, one, "listening again")
		await(t, two, "listening again")
		publisher.Publish("one") // by a connection that is broken as well
		await(t, one, "published after the break")
	}
}

// terminate ends the given number of connections that the buses hold.
func terminate(t *testing.T, url string, want int) {
	t.Helper()
	admin := connect(t, url)
	const kill = `select count(pg_terminate_backend(pid)) from pg_stat_activity
		where application_name = 'stint notify' and datname = current_database()`
	for deadline := time.Now().Add(patience); want > 0; {
		var killed int
		if err := admin.QueryRow(t.Context(), kill).Scan(&killed); err != nil {
			t.Fatal(err)
		}
		if killed == 0 && time.Now().After(deadline) {
			t.Fatalf("%d connections never came", want)
		}
		want -= killed
	}
}

func TestAServerMayCrash(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.StartCluster("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
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

func TestManyPublicationsAreFewNotifications(t *testing.T) {
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
			t.Fatalf("a payload of %d bytes", len(payload))
		}
		heard++
	}
	if heard > publications/10 {
		t.Errorf("%d publications became %d notifications", publications, heard)
	}
}

func TestTooManyTopicsWakeEverybody(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.StartCluster("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	url := cluster.URL("postgres")
	ear := listener(t, url)
	execute(t, ear, "create role talker login")
	publisher := open(t, strings.Replace(url, "postgres@", "talker@", 1))
	execute(t, ear, "alter role talker nologin")
	terminate(t, url, 2)
	for i := range 20_000 { // more than the bus keeps while nobody takes them
		publisher.Publish(fmt.Sprint("topic ", i))
	}
	execute(t, ear, "alter role talker login")
	// What the bus was about to say when the connection broke comes first.
	for !strings.HasSuffix(hear(t, ear), " *") {
	}
}

func execute(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestForeignPayloadsWakeEverybody(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	wake := subscribe(t, open(t, url), "a")
	admin := connect(t, url)
	for _, payload := range []string{"x *", "x %zz", "newer a"} {
		execute(t, admin, "select pg_notify('stint', $1)", payload)
		await(t, wake, payload)
	}
}

func TestCloseSendsWhatWasPublished(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	publisher := open(t, url+"&synchronous_commit=off") // a disk may be busy for longer than Close waits
	ear := listener(t, url)
	publisher.Publish("first")
	hear(t, ear)
	publisher.Publish("second") // within the time of gathering
	if err := publisher.Close(); err != nil {
		t.Fatal(err)
	}
	// "first" may be told again: Close does not wait to learn that it was.
	if payload := hear(t, ear); !strings.Contains(payload+" ", " second ") {
		t.Errorf("heard %q", payload)
	}
}

func TestNewFailsWithoutAServer(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"nobody listens": "postgres://someone:hunter2secret@/db?host=" + t.TempDir(),
		"no address":     "postgres://someone:hunter2secret@host:port/db",
	} {
		_, err := pgnotify.New(t.Context(), address, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("%s: the error tells the password: %v", name, err)
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

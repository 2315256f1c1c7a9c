package osenv_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/osenv"
)

func TestMain(m *testing.M) {
	if os.Getenv("HEARS_SIGNALS") == "" {
		os.Exit(m.Run())
	}
	printInterrupts()
}

// printInterrupts prints the requests to stop that this process receives, one per line.
func printInterrupts() {
	env, stop, err := osenv.New()
	if err != nil {
		panic(err)
	}
	defer stop()
	fmt.Println("ready")
	for i := range env.Interrupts {
		if i == cli.HangUp {
			fmt.Println("hang-up")
		} else {
			fmt.Println("stop")
		}
	}
}

// If a process is started with ignored signals, as by nohup or in the background of a
// shell, it continues to ignore these signals.
func TestSignals(t *testing.T) {
	// A child inherits ignored signals, so this process must not ignore them.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(caught) })
	tests := map[string]struct {
		ignores string
		signals []syscall.Signal
		want    []string
	}{
		"all":            {"", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}, []string{"hang-up", "stop", "stop"}},
		"nohup":          {"HUP", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}, []string{"", "stop", "stop"}},
		"the background": {"INT", []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM}, []string{"", "hang-up", "stop"}},
	}
	for name, tt := range tests {
		c := exec.CommandContext(t.Context(), "sh", "-c", `[ -z "$1" ] || trap "" "$1"; exec "$0"`, os.Args[0], tt.ignores)
		c.Env = append(os.Environ(), "HEARS_SIGNALS=1")
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		lines := bufio.NewReader(out)
		line := func() string {
			text, err := lines.ReadString('\n')
			must(t, err)
			return strings.TrimSpace(text)
		}
		line() // ready
		var got []string
		for i, s := range tt.signals {
			must(t, c.Process.Signal(s))
			watched := ""
			if tt.want[i] != "" {
				watched = line() // if an ignored signal were handled, its line would be read here
			}
			got = append(got, watched)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		must(t, c.Process.Kill())
		_ = c.Wait() // reports that the process was killed
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

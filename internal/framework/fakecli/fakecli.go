// Package fakecli answers: how do agents misbehave?
//
// A test's own program plays Claude Code or Codex when it is started as one of
// them, with what Prepare of the adapters gives it. To have that,
//
//	func TestMain(m *testing.M) {
//		fakecli.Main()
//		os.Exit(m.Run())
//	}
//
// and name the test's program (os.Executable) as that of the framework: on a
// worker by the variable STINT_CLAUDE_CODE_BIN or STINT_CODEX_BIN. Which agent
// is played follows from the arguments, what it does from a word in the prompt:
//
//	fake:silent    ends at once with exit code 0, without a word
//	fake:crash     says something, then ends with exit code 3 and no last word
//	fake:refused   says that all went well, but it was refused its model (401)
//	fake:noise     writes lines that are no protocol, and such of the future
//	fake:longline  writes a line of 50 MB before its answer
//	fake:retry     tells for ever that it tries again
//	fake:wait      waits in the middle of its turn until it is asked to stop
//	fake:deaf      waits like that, and ignores everything but SIGKILL
//	fake:hang      says its last word and stays
//	fake:orphan    leaves a process of a session of its own that ignores SIGTERM
//	               and holds its output open; "orphan PID" is in its answer
//
// Without a word it answers "Hello. user_turns=N", N counted over the
// conversation, which it keeps where the real agent does. It is asked its
// version, too, and always has a newer one than any adapter needs. Built with
// the race detector it takes a second to end, unless its environment has
// GORACE=atexit_sleep_ms=0.
package fakecli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// orphanArgument starts the process that is left.
const orphanArgument = "stint-fake-orphan"

// orphanReady is what it closes once no signal but SIGKILL ends it.
const orphanReady = 3

// forever is as long as a test may take, and longer.
const forever = 30 * time.Minute

// Main plays an agent and ends the process, where the process was started as
// one; else it returns at once.
func Main() {
	args := os.Args[1:]
	switch {
	case slices.Equal(args, []string{"--version"}):
		fmt.Fprintln(os.Stdout, "99.0.0 (fake)")
		os.Exit(0)
	case slices.Equal(args, []string{orphanArgument}):
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		_ = os.NewFile(orphanReady, "ready").Close() // which says so
		time.Sleep(forever)
		os.Exit(0)
	case slices.Contains(args, "stream-json"):
		os.Exit(play(newClaude(args, os.Stdout), os.Stdin))
	case slices.Contains(args, "exec") && slices.Contains(args, "--json"):
		os.Exit(play(newCodex(args, os.Stdout), os.Stdin))
	}
}

// agent speaks as one of the agents does.
type agent interface {
	// prompt reads it.
	prompt(in *bufio.Reader) string
	// begin opens or continues the conversation and counts its turns; false says
	// that there is none to continue.
	begin() (turns int, ok bool)
	say(text string)
	retry(n int)
	// end is the last word.
	end(text string)
	refused()
	// stopping listens for being asked to stop; what it gives waits for that and
	// says the last word then.
	stopping(in *bufio.Reader) (stopped func())
	line(v any)
	raw(text string)
}

var word = regexp.MustCompile(`fake:([a-z]+)`)

// play is what the agent does; the exit code comes back.
func play(a agent, stdin io.Reader) int {
	in := bufio.NewReader(stdin)
	trap := ""
	if m := word.FindStringSubmatch(a.prompt(in)); m != nil {
		trap = m[1]
	}
	if trap == "silent" {
		return 0
	}
	turns, ok := a.begin()
	if !ok {
		return 1
	}
	answer := fmt.Sprintf("Hello. user_turns=%d", turns)
	switch trap {
	case "crash":
		a.say("About to fall.")
		fmt.Fprintln(os.Stderr, "It fell over.")
		return 3
	case "refused":
		a.refused()
		return 1
	case "noise":
		a.raw("npm warn this is no protocol\n{\"half\": \n")
		a.line(map[string]any{"type": "hologram", "subtype": "blue", "depth": 3})
		a.line(map[string]any{"level": "info"})
	case "longline":
		a.raw(`{"message":"`)
		piece := strings.Repeat("x", 1<<20)
		for range 50 {
			a.raw(piece)
		}
		a.raw(`","type":"user"}` + "\n")
	case "retry":
		for n := 1; n < int(forever/retryPause); n++ {
			a.retry(n)
			time.Sleep(retryPause)
		}
	case "wait":
		stopped := a.stopping(in)
		a.say("Waiting.")
		stopped()
		return 1
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		a.say("Waiting.")
		time.Sleep(forever)
	case "orphan":
		answer = fmt.Sprintf("orphan %d", leaveOrphan())
	}
	a.say(answer)
	a.end(answer)
	if trap == "hang" {
		time.Sleep(forever)
	}
	return 0
}

const retryPause = 50 * time.Millisecond

// leaveOrphan starts a process that outlives this one, and waits until signals
// do not end it.
func leaveOrphan() int {
	self, err := os.Executable()
	if err != nil {
		return 0
	}
	heard, ready, err := os.Pipe()
	if err != nil {
		return 0
	}
	defer heard.Close()
	defer ready.Close()
	cmd := exec.Command(self, orphanArgument) //nolint:noctx // it is to outlive everything
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{ready}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		return 0
	}
	ready.Close()
	_, _ = heard.Read(make([]byte, 1)) // nothing comes but the end
	return cmd.Process.Pid
}

// lineWriter writes lines.
type lineWriter struct{ out io.Writer }

func (v lineWriter) raw(text string) { fmt.Fprint(v.out, text) }

func (v lineWriter) line(value any) {
	b, err := json.Marshal(value)
	if err == nil { // what is said here marshals
		v.raw(string(b) + "\n")
	}
}

// after is the argument behind one; empty where there is none.
func after(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// remember adds a line to a conversation's file and counts its lines.
func remember(file string) int {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return 0
	}
	defer f.Close()
	fmt.Fprintln(f, `{"type":"user"}`)
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return strings.Count(string(b), "\n")
}

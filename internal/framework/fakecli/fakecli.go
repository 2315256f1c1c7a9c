// Package fakecli makes a test binary act as a fake Claude Code or Codex, which
// misbehaves on request.
//
// The test binary acts as an agent if it is started with the arguments that
// framework.Framework.Prepare returns. Add this to the test:
//
//	func TestMain(m *testing.M) {
//	      fakecli.Main()
//	      os.Exit(m.Run())
//	}
//
// and use the test binary (os.Executable) as the framework's program. A worker
// reads its path from the variable STINT_CLAUDE_CODE_BIN or STINT_CODEX_BIN. The
// arguments select the agent; a word in the prompt selects the behaviour:
//
//	fake:silent    end at once with exit code 0 and without output
//	fake:crash     write a message, then end with exit code 3 and without
//	               a result
//	fake:refused   report success, although the model refused the key (401)
//	fake:noise     write lines that are not JSON, and lines of unknown types
//	fake:longline  write a line of 50 MB before the answer
//	fake:retry     report retries forever
//	fake:wait      wait in the middle of the turn until asked to stop
//	fake:deaf      wait, and ignore everything but SIGKILL
//	fake:hang      write the result, but do not exit
//	fake:orphan    leave a process in its own session that ignores SIGTERM and
//	               keeps the output open; the answer contains "orphan PID"
//
// Without such a word the answer is "Hello. user_turns=N", where N is the number of
// prompts in the conversation. The conversation is stored where the real agent
// stores it. With the argument --version the binary prints a version that is newer
// than all required versions. A binary with the race detector takes a second to
// exit unless its environment has GORACE=atexit_sleep_ms=0.
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

// orphanArgument is the argument that makes the binary act as the orphan process.
const orphanArgument = "stint-fake-orphan"

// orphanReady is the file descriptor that the orphan process closes as soon as it
// ignores signals.
const orphanReady = 3

// forever is a duration longer than any test.
const forever = 30 * time.Minute

// Main acts as an agent and exits if the arguments of the process are those of an
// agent. Otherwise it returns.
func Main() {
	args := os.Args[1:]
	switch {
	case slices.Equal(args, []string{"--version"}):
		fmt.Fprintln(os.Stdout, "99.0.0 (fake)")
		os.Exit(0)
	case slices.Equal(args, []string{orphanArgument}):
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		_ = os.NewFile(orphanReady, "ready").Close() // signals that this process is ready
		time.Sleep(forever)
		os.Exit(0)
	case slices.Contains(args, "stream-json"):
		os.Exit(play(newClaude(args, os.Stdout), os.Stdin))
	case slices.Contains(args, "exec") && slices.Contains(args, "--json"):
		os.Exit(play(newCodex(args, os.Stdout), os.Stdin))
	}
}

// agent writes the output of one kind of agent.
type agent interface {
	// prompt reads the prompt.
	prompt(in *bufio.Reader) string
	// begin creates or resumes the conversation and returns the number of its
	// turns. ok is false if the conversation to resume does not exist.
	begin() (turns int, ok bool)
	say(text string)
	retry(n int)
	// end writes the result.
	end(text string)
	refused()
	// stopping prepares for a request to stop. The returned function waits for
	// the request and, if the agent writes a result then, writes it.
	stopping(in *bufio.Reader) (stopped func())
	line(v any)
	raw(text string)
}

var word = regexp.MustCompile(`fake:([a-z]+)`)

// play runs the agent and returns its exit code.
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
		a.raw("npm warn this is not protocol\n{\"half\": \n")
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

// leaveOrphan starts a process that outlives this process, waits until the new
// process ignores signals, and returns its ID. After an error it returns 0.
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
	cmd := exec.Command(self, orphanArgument) //nolint:noctx // the process must outlive every context
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{ready}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		return 0
	}
	ready.Close()
	_, _ = heard.Read(make([]byte, 1)) // returns when the orphan closes its end
	return cmd.Process.Pid
}

// lineWriter writes lines of JSON.
type lineWriter struct{ out io.Writer }

func (v lineWriter) raw(text string) { fmt.Fprint(v.out, text) }

func (v lineWriter) line(value any) {
	b, err := json.Marshal(value)
	if err == nil { // all values can be encoded
		v.raw(string(b) + "\n")
	}
}

// after returns the argument that follows name, or "".
func after(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// remember appends a line to the file of a conversation and returns the number of
// lines in the file, or 0 after an error.
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

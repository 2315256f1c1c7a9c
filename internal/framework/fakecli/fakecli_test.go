package fakecli_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/framework/claudecode"
	"github.com/stint-dev/stint/internal/framework/codex"
	"github.com/stint-dev/stint/internal/framework/fakecli"
	"github.com/stint-dev/stint/internal/framework/frameworktest"
)

func TestMain(m *testing.M) {
	fakecli.Main()
	os.Exit(m.Run())
}

var frameworks = []framework.Framework{claudecode.Framework{}, codex.Framework{}}

func input(t *testing.T, f framework.Framework, prompt string) framework.Input {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return framework.Input{
		Definition: &stint.Definition{Framework: f.Info().Name}, Prompt: prompt,
		Program: framework.Program{Path: self}, NewID: uuid.NewString(),
	}
}

// TestTraps checks the verdicts on misbehaving agents.
func TestTraps(t *testing.T) {
	t.Parallel()
	quick := frameworktest.Options{ExitGrace: 100 * time.Millisecond}
	tests := map[string]struct {
		options    frameworktest.Options
		completed  bool
		transcript string
		message    string
		only       string // name of the only framework to test; "" means all
	}{
		"silent":   {message: "It wrote nothing at all"},
		"crash":    {transcript: "About to fall.\n", message: "without a result (exit code 3)"},
		"refused":  {message: "refused the key (401)"},
		"noise":    {completed: true, transcript: "npm warn this is not protocol\n"},
		"longline": {completed: true, transcript: "the rest of it was left out"},
		"retry":    {options: frameworktest.Options{Kill: "529"}, message: "without a result (exit code -1)"},
		"wait":     {options: frameworktest.Options{Stop: "Waiting."}, message: "interrupted during its turn", only: "claude-code"},
		"deaf":     {options: frameworktest.Options{Kill: "Waiting."}, message: "without a result"},
		"hang":     {options: quick, completed: true, transcript: "Hello. user_turns=1\n"},
	}
	for _, f := range frameworks {
		for trap, tt := range tests {
			if name := f.Info().Name; tt.only == "" || tt.only == name {
				t.Run(name+"/"+trap, func(t *testing.T) {
					t.Parallel()
					ran := frameworktest.Run(t, f, frameworktest.MakeDirs(t), input(t, f, "Do it, fake:"+trap+", please."), tt.options)
					ran.Transcript(t, tt.transcript)
					if ran.Verdict.Completed != tt.completed || !strings.Contains(ran.Verdict.Message, tt.message) {
						t.Errorf("verdict %+v, stderr %s", ran.Verdict, ran.Stderr)
					}
				})
			}
		}
	}
}

func TestOrphanStays(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks {
		t.Run(f.Info().Name, func(t *testing.T) {
			t.Parallel()
			ran := frameworktest.Run(t, f, frameworktest.MakeDirs(t), input(t, f, "fake:orphan"), frameworktest.Options{ExitGrace: 100 * time.Millisecond})
			ran.Completed(t)
			var pid int
			if _, err := fmt.Sscanf(ran.Verdict.Final+ran.Said(), "orphan %d", &pid); err != nil || pid == 0 {
				t.Fatalf("no orphan in %q", ran.Said())
			}
			if !ignores(t, pid, syscall.SIGTERM) {
				t.Error("it does not ignore SIGTERM")
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Errorf("it is gone: %v", err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("end it: %v", err)
			}
		})
	}
}

// ignores reports whether a process ignores a signal.
func ignores(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var mask uint64
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	if _, err := fmt.Sscanf(rest, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(s-1)) != 0
}

func TestConversationResumes(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks {
		t.Run(f.Info().Name, func(t *testing.T) {
			t.Parallel()
			at := frameworktest.MakeDirs(t)
			in := input(t, f, "One.")
			for turn := 1; turn <= 3; turn++ {
				ran := frameworktest.Run(t, f, at, in, frameworktest.Options{})
				ran.Completed(t)
				ran.Transcript(t, fmt.Sprintf("user_turns=%d", turn))
				if u := ran.Step.Usage; u == nil || u.InputTokens != 100 || u.OutputTokens != 20 {
					t.Errorf("turn %d used %+v", turn, u)
				}
				in.Resume = &ran.Conversation
			}
			in.Resume.ID = uuid.NewString()
			if ran := frameworktest.Run(t, f, at, in, frameworktest.Options{}); !strings.Contains(ran.Verdict.Message, "Begin a new session") {
				t.Errorf("a missing conversation: %+v", ran.Verdict)
			}
		})
	}
}

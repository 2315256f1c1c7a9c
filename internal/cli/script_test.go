package cli_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/cli"
	"github.com/stint-dev/stint/internal/cli/osenv"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/worker/agentcli"
)

var update = flag.Bool("update", false, "rewrite golden files in scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stint": program})
}

// program runs stint with a fake server, fake reports of sandboxes, and a fake list of
// agents' programs.
func program() {
	env, stop, err := osenv.New()
	if err != nil {
		panic(err)
	}
	env.Serve = func(_ context.Context, c config.Config, ready func(cli.ServerInfo)) error {
		if os.Getenv("SERVE_FAILS") != "" {
			return errors.New("the disk is made of cheese")
		}
		ready(cli.ServerInfo{URL: "http://" + c.Listen, Socket: c.Socket(), DataDir: c.Data})
		fmt.Fprintln(os.Stderr, "capacity", c.Capacity, "memory", c.Resources.Memory)
		return nil
	}
	env.Programs = func(context.Context) ([]agentcli.Installed, error) {
		version := "2.1.197"
		return []agentcli.Installed{
			{Framework: stint.Framework{Name: "shell", Available: true}},
			{Framework: stint.Framework{Name: "assistant", Available: true}},
			{Framework: stint.Framework{Name: "claude-code", Available: true, Version: &version}, Path: "/home/me/bin/claude"},
			{Framework: stint.Framework{Name: "codex", Reason: "The framework 'codex' needs the program 'codex'."}},
			{Framework: stint.Framework{Name: "acp", Available: true}},
		}, nil
	}
	env.Isolations = func() []string {
		return append([]string{"namespace", "other"}, strings.Fields(os.Getenv("MORE_ISOLATIONS"))...)
	}
	env.Probe = func(ctx context.Context, _ config.Config, name string) sandbox.Report {
		note := os.Getenv("NO_SANDBOX")
		switch {
		case name == "hanging":
			select {} // like a driver on a host whose kernel blocks
		case name == "namespace" && note != "":
			return sandbox.Report{Driver: name, Notes: []string{note}}
		case name == "namespace":
			return sandbox.Report{Driver: name, Available: true, Network: true, Limits: sandbox.Enforced{CPU: true, Memory: true, Pids: true}}
		}
		return sandbox.Report{Driver: name}
	}
	code := cli.Main(context.Background(), env)
	stop()
	os.Exit(code)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			for _, v := range os.Environ() {
				if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "STINT_") || strings.HasPrefix(name, "XDG_") {
					e.Setenv(name, "")
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitCode},
	})
}

// exitCode implements the script command "code N command...". It runs the command and
// fails the script if the exit code of the command is not N.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		coded, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = coded.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

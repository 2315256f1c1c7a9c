package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/config"
	"github.com/stint-dev/stint/internal/sandbox"
)

// finding is the result of one check.
type finding struct {
	Check   string   `json:"check"`
	Result  string   `json:"result"` // ok, none (absent and not needed), warn, or fail
	Message string   `json:"message"`
	Notes   []string `json:"notes,omitempty"`
}

func (a *app) doctor() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a server can run agents on this machine",
		Long: `Check the sandbox, the limits, the data folder, the configuration, the
agents' programs, and the server. Nothing is changed. Each check has 10 seconds,
and its result is printed as soon as it is known. The exit code is 1 if a
server could not run agents on this machine.`,
		Args: exactly(),
	}
	c.Flags().StringVar(&data, "data", "", "data folder of the server (also STINT_DATA)")
	c.RunE = a.do(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		failed := false
		for _, check := range a.checks(data) {
			findings := a.inTime(ctx, check)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			for _, f := range findings {
				failed = failed || f.Result == "fail"
				if err := a.printFinding(f); err != nil {
					return err
				}
			}
		}
		if failed {
			return exitError(exitFailed)
		}
		return nil
	})
	return c
}

// check is one part of doctor.
type check struct {
	name string // as in finding.Check
	of   string // subject of the message after a timeout
	must bool   // a timeout is a failure, not only a warning
	do   func(ctx context.Context) []finding
}

// The limits of a check. After checkTime it should return, and after checkLimit doctor
// does not wait for it.
const (
	checkTime  = 8 * time.Second
	checkLimit = 10 * time.Second
)

func (a *app) checks(data string) []check {
	c, err := a.serverConfig(data)
	if err != nil {
		c = config.Default() // checkServerConfig reports the error
	}
	list := []check{{"sandbox", c.Isolation, true, func(ctx context.Context) []finding { return checkSandbox(a.Probe(ctx, c, c.Isolation)) }}}
	for _, name := range a.Isolations() {
		if name != c.Isolation {
			list = append(list, check{"isolation", name, false, func(ctx context.Context) []finding { return checkIsolation(a.Probe(ctx, c, name)) }})
		}
	}
	return append(list,
		check{"configuration", "The data folder", true, func(context.Context) []finding { return a.checkServerConfig(data) }},
		check{"framework", "The search for agents' programs", false, a.checkFrameworks},
		check{"login", "The stored token", false, func(context.Context) []finding { return []finding{a.checkCredentials()} }},
		check{"server", "The server", false, func(ctx context.Context) []finding { return []finding{a.checkServer(ctx)} }},
	)
}

// inTime returns the findings of a check. If the check does not end within checkLimit, it
// returns a finding that says so. If ctx ends, it returns soon.
func (a *app) inTime(ctx context.Context, c check) []finding {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	done := make(chan []finding, 1)
	go func() { done <- c.do(ctx) }()
	select {
	case findings := <-done:
		return findings
	case <-ctx.Done():
	}
	select {
	case findings := <-done: // the check removes what it has created
		return findings
	case <-time.After(checkLimit - checkTime):
	}
	result := "warn"
	if c.must {
		result = "fail"
	}
	return []finding{{Check: c.name, Result: result, Message: fmt.Sprintf("%s did not answer within %s.", c.of, checkLimit)}}
}

func (a *app) printFinding(f finding) error {
	if a.json {
		return a.printJSON(f)
	}
	code := map[string]string{"ok": green, "warn": yellow, "fail": red}[f.Result]
	fmt.Fprintf(a.Stdout, "%s  %-13s %s\n", a.colour(stdout, code, fmt.Sprintf("%-4s", f.Result)), f.Check, plain(f.Message))
	for _, note := range f.Notes {
		fmt.Fprintf(a.Stdout, "%20s- %s\n", "", plain(note))
	}
	return nil
}

// checkIsolation reports an isolator that a server on this machine would use only for
// definitions that name it.
func checkIsolation(r sandbox.Report) []finding {
	if !r.Available {
		return []finding{{"isolation", "none", r.Driver + " is not available.", r.Notes}}
	}
	return []finding{{"isolation", "ok", r.Driver + " works " + rights(r) + ".", r.Notes}}
}

func rights(r sandbox.Report) string {
	if r.Rootless {
		return "without root's rights"
	}
	return "with root's rights"
}

func checkSandbox(r sandbox.Report) []finding {
	if !r.Available {
		return []finding{{"sandbox", "fail", "Agents cannot run here, because they never run without isolation.", r.Notes}}
	}
	out := []finding{{"sandbox", "ok", fmt.Sprintf("%s works %s.", r.Driver, rights(r)), r.Notes}}
	if r.Network {
		out = append(out, finding{Check: "network", Result: "ok", Message: "All traffic of agents passes the server, which filters and logs it."})
	} else {
		out = append(out, finding{Check: "network", Result: "warn", Message: "Agents have no network here."})
	}
	var missing []string
	for _, limit := range []struct {
		name string
		held bool
	}{{"CPU", r.Limits.CPU}, {"memory", r.Limits.Memory}, {"processes", r.Limits.Pids}, {"disk", r.Limits.Disk}} {
		if !limit.held {
			missing = append(missing, limit.name)
		}
	}
	if len(missing) > 0 {
		return append(out, finding{Check: "limits", Result: "warn", Message: "Not enforced for " + strings.Join(missing, ", ") + ": delegate cgroups to this user, or run as root."})
	}
	return append(out, finding{Check: "limits", Result: "ok", Message: "CPU, memory, processes and disk of runs are bounded."})
}

// checkFrameworks reports which agents' programs a server on this machine would
// find.
func (a *app) checkFrameworks(ctx context.Context) []finding {
	list, err := a.Programs(ctx)
	if err != nil {
		return []finding{{Check: "frameworks", Result: "warn", Message: err.Error()}}
	}
	var out []finding
	var builtin []string
	for _, f := range list {
		switch {
		case !f.Available:
			out = append(out, finding{Check: "framework", Result: "none", Message: f.Reason})
		case f.Name == "acp":
			out = append(out, finding{Check: "framework", Result: "ok", Message: "acp drives the program that a definition's 'command' names, where the PATH finds it."})
		case f.Path == "":
			builtin = append(builtin, f.Name)
		default:
			out = append(out, finding{Check: "framework", Result: "ok", Message: strings.Join(strings.Fields(f.Name+" "+deref(f.Version)+" at "+f.Path), " ") + "."})
		}
	}
	ready := finding{Check: "framework", Result: "ok", Message: strings.Join(builtin, ", ") + " need nothing installed."}
	return append([]finding{ready}, out...)
}

// leastDisk is the free space that a server should have, in bytes.
const leastDisk = 1 << 30

// serverConfig returns the configuration of a server with the given data directory.
// If data is empty, the data directory is configured like that of 'stint serve'.
func (a *app) serverConfig(data string) (config.Config, error) {
	flags := map[string]string{}
	if data != "" {
		flags["data"] = data
	}
	return a.config(flags)
}

func (a *app) checkServerConfig(data string) []finding {
	c, err := a.serverConfig(data)
	if err != nil {
		return []finding{{Check: "configuration", Result: "fail", Message: err.Error()}}
	}
	source := "from defaults and environment"
	if c.ConfigFile != "" {
		source = "from " + c.ConfigFile
	}
	out := []finding{{Check: "configuration", Result: "ok", Message: fmt.Sprintf("valid, %s; would listen on %s", source, c.Listen)}}
	out = append(out, checkData(c.Data))
	if folder := c.DockerState(); folder != "" {
		out = append(out, finding{Check: "data", Result: "warn", Message: folder + " is left of the Docker isolation, which was removed. Remove it if nothing is mounted below it (findmnt), and the containers and images with the label dev.stint.instance."})
	}
	disk := existing(c.Data)
	free, err := freeSpace(disk)
	switch {
	case err != nil:
		return append(out, finding{Check: "disk", Result: "warn", Message: fmt.Sprintf("The free space of %s is not known: %s", disk, err)})
	case free < leastDisk:
		return append(out, finding{Check: "disk", Result: "warn", Message: fmt.Sprintf("Only %s are free at %s.", bytesText(free), disk)})
	}
	return append(out, finding{Check: "disk", Result: "ok", Message: fmt.Sprintf("%s are free at %s.", bytesText(free), disk)})
}

// existing returns path if it exists, or its nearest parent that exists.
func existing(path string) string {
	for {
		if exists(path) || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func checkData(dir string) finding {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := writable(existing(dir)); err != nil {
			return finding{Check: "data", Result: "fail", Message: fmt.Sprintf("%s cannot be created (choose another with --data): %s", dir, err)}
		}
		return finding{Check: "data", Result: "ok", Message: dir + " will be created by the first 'stint serve'."}
	case err != nil:
		return finding{Check: "data", Result: "fail", Message: err.Error()}
	case !info.IsDir():
		return finding{Check: "data", Result: "fail", Message: dir + " is not a folder: choose another with --data."}
	case writable(dir) != nil:
		return finding{Check: "data", Result: "fail", Message: dir + " is not writable for you: run as its owner, or choose another with --data."}
	case info.Mode().Perm()&0o077 != 0:
		return finding{Check: "data", Result: "warn", Message: fmt.Sprintf("%s can be entered by others (mode %04o): chmod 700 %s", dir, info.Mode().Perm(), quote(dir))}
	}
	return finding{Check: "data", Result: "ok", Message: dir + " is accessible only to you."}
}

func (a *app) checkCredentials() finding {
	path, err := a.credentialsPath()
	if err != nil {
		return finding{Check: "login", Result: "warn", Message: err.Error()}
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return finding{Check: "login", Result: "warn", Message: "You are not logged in: run 'stint auth login' when a server runs."}
	}
	if err != nil {
		return finding{Check: "login", Result: "fail", Message: err.Error()}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return finding{Check: "login", Result: "warn", Message: fmt.Sprintf("%s can be read by others: chmod 600 %s", path, quote(path))}
	}
	if _, err := a.readContexts(); err != nil {
		return finding{Check: "login", Result: "fail", Message: err.Error()}
	}
	return finding{Check: "login", Result: "ok", Message: "The token is stored in " + path + "."}
}

// checkServer checks the server that other commands would use.
func (a *app) checkServer(ctx context.Context) finding {
	server, err := a.account()
	if err != nil {
		return finding{Check: "server", Result: "warn", Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := healthy(ctx, server.URL); err != nil {
		return finding{Check: "server", Result: "warn", Message: fmt.Sprintf("%s: %s", server.URL, err)}
	}
	if server.Token == "" {
		return finding{Check: "server", Result: "warn", Message: server.URL + " answers; you are not logged in to it."}
	}
	c, err := a.clientFor(server.URL, server.Token, 1)
	if err != nil {
		return finding{Check: "server", Result: "warn", Message: err.Error()}
	}
	me, err := c.Me(ctx)
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		return finding{Check: "server", Result: "warn", Message: fmt.Sprintf("%s answers, but: %s", server.URL, refusal.Message)}
	}
	if err != nil {
		return finding{Check: "server", Result: "warn", Message: err.Error()}
	}
	return finding{Check: "server", Result: "ok", Message: fmt.Sprintf("%s answers; you are %s of %s.", server.URL, me.User.Name, me.Organization.Name)}
}

func healthy(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/healthz", nil)
	if err != nil {
		return err
	}
	res, err := adviser{http.DefaultTransport}.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s: is it a Stint server?", res.Status)
	}
	return nil
}

// freeSpace returns the number of bytes that this user can write in a
// directory.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// writable returns nil if this user can create entries in the directory.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

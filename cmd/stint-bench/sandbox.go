package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/gvisor"
	"github.com/stint-dev/stint/internal/sandbox/namespace"
	"github.com/stint-dev/stint/internal/sandbox/pool"
)

// start is a measurement of one way to start a program in isolation. goal is the limit
// of the median in milliseconds, or 0 for none.
type start struct {
	what    string
	goal    float64
	measure func(context.Context) time.Duration
}

// sandboxes measures starts, memory, and network of sandboxes.
func (l *lab) sandboxes(ctx context.Context) {
	starts := []start{{anchorExec, 0, forkExec}}
	for _, kind := range []struct {
		name           string
		cold, prepared float64 // goals in milliseconds
		count          int     // of sandboxes whose memory is measured
		memory         float64 // goal in MiB; 0 is none
	}{{"namespace", 8, 2, 50, 2}, {"gvisor", 150, 8, 4, 0}} {
		i := l.isolator(ctx, kind.name)
		if i == nil {
			continue
		}
		starts = append(starts, start{kind.name + coldStart, kind.cold, i.cold}, start{kind.name + ", prepared → first byte", kind.prepared, i.prepared})
		mib := i.memory(ctx, kind.count) / (1 << 20)
		l.add(Row{What: fmt.Sprintf("memory (PSS) of a prepared %s sandbox, of %d", kind.name, kind.count), Measured: Measure{Value: mib, Unit: "MiB"}}, atMost("", mib, kind.memory, "MiB"))
		if kind.name == "namespace" {
			const callers = 4
			row := compareRates(ctx, fmt.Sprintf("namespace sandboxes from start to end, %d at once", callers),
				loopRate(callers, l.each/2, func(ctx context.Context, _ int) { i.cold(ctx) }),
				fmt.Sprintf("%s, %d at once", anchorExec, callers), forkExecRate(callers, l.anchor))
			l.add(row, atLeast("", row.Measured.Rate, 100, "/s"))
		}
	}
	l.starts(ctx, append(starts, l.peers(ctx)...))
	l.egress(ctx)
	l.firstOutputs(ctx, "POST → first streamed output, sandbox prepared ahead", 5, "--parked", "4")
	l.firstOutputs(ctx, "POST → first streamed output, sandbox made for the run", 12, "--parked", "0")
}

const (
	coldStart  = ", cold, /bin/true"
	bubblewrap = "bubblewrap, /bin/true"
)

// starts measures all starts in turn. The first start is the anchor of the others, and
// starts adds a row for each of the others. A further row compares the namespace isolator
// with bubblewrap.
func (l *lab) starts(ctx context.Context, starts []start) {
	var steps []func(context.Context) time.Duration
	for _, s := range starts {
		steps = append(steps, s.measure)
	}
	measured := map[string]Measure{}
	for i, took := range inTurn(ctx, 1, max(l.samples/10, 5), steps...) {
		s, m := starts[i], latency(took)
		measured[s.what] = m
		if i > 0 {
			l.add(compare(s.what, m, anchorExec, measured[anchorExec]), atMost("p50", m.P50Ms, s.goal, "ms"))
		}
	}
	row := compare("namespace"+coldStart, measured["namespace"+coldStart], bubblewrap, measured[bubblewrap])
	if row.Ratio > 0 {
		l.add(row, atMost("", row.Ratio, 1, "×"))
	}
}

// isolator is an isolator with a folder for its sandboxes.
type isolator struct {
	sandbox.Driver
	dir     string
	created atomic.Int64
}

// isolator opens the isolator called name. If the isolator does not work on this
// machine, the method adds a row with the reason and returns nil.
func (l *lab) isolator(ctx context.Context, name string) *isolator {
	dir := l.folder()
	c := namespace.Config{StateDir: filepath.Join(dir, "state"), Instance: fmt.Sprintf("bench-%d", os.Getpid())}
	var driver interface {
		sandbox.Driver
		io.Closer
	}
	var err error
	if name == "namespace" {
		driver, err = namespace.New(c)
	} else {
		c.Instance, c.UIDBase = "g-"+c.Instance, namespace.SecondUIDBase
		driver, err = gvisor.New(gvisor.Config{Config: c})
	}
	if err == nil {
		l.cleanup(driver.Close)
		if r := driver.Probe(ctx); !r.Available {
			err = errors.New(strings.Join(r.Notes, " "))
		}
	}
	if err != nil {
		l.add(Row{What: name, Note: "not available here: " + oneLine(err.Error())})
		return nil
	}
	return &isolator{Driver: driver, dir: dir}
}

// prepare prepares a sandbox. It returns the sandbox, its specification, and the time
// at which the preparation began.
func (i *isolator) prepare(ctx context.Context, network bool) (sandbox.Sandbox, sandbox.Spec, time.Time) {
	id := fmt.Sprintf("bench_%d", i.created.Add(1))
	s := must(pool.MakeDirs(filepath.Join(i.dir, id))).Spec(id)
	s.Resources, s.Network = sandbox.Resources{CPU: 2, Memory: 1 << 30, Pids: 512}, network
	begin := time.Now()
	return must(i.Prepare(ctx, s)), s, begin
}

// cold returns the time from the call of Prepare until /bin/true has exited in the
// sandbox.
func (i *isolator) cold(ctx context.Context) time.Duration {
	box, _, begin := i.prepare(ctx, false)
	defer box.Close(context.WithoutCancel(ctx)) //nolint:errcheck // not measured
	check(box.Start(ctx, sandbox.Command{Argv: []string{"/bin/true"}}))
	must(box.Wait(ctx))
	return time.Since(begin)
}

// prepared returns the time from the call of Attach for a prepared sandbox with a
// network until the first byte of its command's output.
func (i *isolator) prepared(ctx context.Context) time.Duration {
	box, s, _ := i.prepare(ctx, true)
	defer box.Close(context.WithoutCancel(ctx)) //nolint:errcheck // not measured
	defer box.Network().Close()                 //nolint:errcheck // not measured
	out := make(firstByte, 1)
	begin := time.Now()
	check(box.Attach(ctx, s.Resources, nil))
	check(box.Start(ctx, sandbox.Command{Argv: []string{"/bin/echo", "hello"}, Stdout: out}))
	must(box.Wait(ctx))
	return (<-out).Sub(begin)
}

// firstByte is an io.Writer that sends the time of the first write to its channel.
type firstByte chan time.Time

func (f firstByte) Write(p []byte) (int, error) {
	select {
	case f <- time.Now():
	default:
	}
	return len(p), nil
}

// memory prepares n sandboxes and returns their average memory (PSS) in bytes.
func (i *isolator) memory(ctx context.Context, n int) float64 {
	before := childMemory(os.Getpid())
	for range n {
		box, _, _ := i.prepare(ctx, false)
		defer box.Close(context.WithoutCancel(ctx)) //nolint:errcheck // not measured
	}
	return float64(childMemory(os.Getpid())-before) / float64(n)
}

// childMemory returns the memory of all descendants of a process in bytes (PSS: each
// shared page is divided among the processes that share it).
func childMemory(pid int) (total int64) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		children, _ := os.ReadFile(path)
		for c := range strings.FieldsSeq(string(children)) {
			child := must(strconv.Atoi(c))
			total += memoryField(fmt.Sprintf("/proc/%d/smaps_rollup", child), "Pss") + childMemory(child)
		}
	}
	return total
}

// bubblewrapLine runs /bin/true in new namespaces of all kinds, with the programs of
// the host mounted read-only.
const bubblewrapLine = "bwrap --unshare-all --new-session --die-with-parent --cap-drop ALL --proc /proc --dev /dev --tmpfs /tmp " +
	"--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 /bin/true"

//go:embed runc.json
var runcConfig []byte

// peers returns the starts of /bin/true by other isolation programs that are installed
// and work on this machine. These programs make only /usr of the host visible.
func (l *lab) peers(ctx context.Context) (working []start) {
	bundle, n := l.folder(), 0
	root := filepath.Join(bundle, "rootfs")
	check(os.Mkdir(root, 0o755))
	for _, name := range []string{"bin", "lib", "lib64"} {
		check(os.Symlink("usr/"+name, filepath.Join(root, name)))
	}
	check(os.WriteFile(filepath.Join(bundle, "config.json"), runcConfig, 0o600))
	runc := func(ctx context.Context) time.Duration {
		n++
		return command("runc", "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, fmt.Sprintf("stint-bench-%d-%d", os.Getpid(), n))(ctx)
	}
	for program, s := range map[string]start{"bwrap": {bubblewrap, 0, command(strings.Fields(bubblewrapLine)...)}, "runc": {"runc, /bin/true", 0, runc}} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		if err := catch(func() { s.measure(ctx) }); err != nil {
			l.add(Row{What: s.what, Note: "not measured: " + oneLine(err.Error())})
			continue
		}
		working = append(working, s)
	}
	return working
}

// reached is the result of runClient.
type reached struct {
	Took []time.Duration // time of each connection: connect, send a line, and read it back
	Rate float64         // bytes per second read from one connection
}

// egress measures a client in a sandbox, which connects through the egress proxy. The
// anchor is the same client outside. The client is this program, stored in a volume.
func (l *lab) egress(ctx context.Context) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	l.cleanup(listener.Close)
	go answer(listener)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	inside := stint.HostAlias + ":" + port
	s := l.start(ctx, l.folder())
	self := must(os.ReadFile(l.self))
	push(ctx, s.api.Volumes, "tools", archiveOf(1, func(int) (string, []byte) { return "program", self }))
	s.createAgent(ctx, fmt.Sprintf(`{"name":"client","framework":"shell","volumes":{"tools":{"path":"/tools"}},"network":{"mode":"restricted","allow":[%q]}}`, inside))
	amounts := fmt.Sprintf(" %d %d", max(l.samples, 20), l.each*2/3) // connections, and bytes to read: 2.7 GB in a full run
	var direct, through reached
	args := strings.Fields("client " + listener.Addr().String() + amounts)
	check(json.Unmarshal(must(exec.CommandContext(ctx, l.self, args...).Output()), &direct))
	check(json.Unmarshal(s.output(ctx, "client", "/tools/program client "+inside+amounts), &through))
	d, m := latency(direct.Took), latency(through.Took)
	l.add(compare("a connection from a sandbox, one line and back", m, "the same client outside", d), atMost("added p50", max(m.P50Ms-d.P50Ms, 1e-6), 1, "ms"))
	m = Measure{Value: through.Rate / 1e6, Unit: "MB/s"}
	l.add(compare("bytes through one connection from a sandbox", m, "the same client outside", Measure{Value: direct.Rate / 1e6, Unit: "MB/s"}), atLeast("", m.Value, 500, "MB/s"))
}

// output returns the standard output of a run.
func (s *server) output(ctx context.Context, agent, prompt string) (out []byte) {
	r := must(s.api.Runs.Create(ctx, stint.NewRun{Agent: agent, Prompt: prompt}, nil))
	for e, err := range s.api.Runs.Events(ctx, r.ID, 0) {
		check(err)
		var data stint.OutputData
		if e.Type == stint.EventOutput && json.Unmarshal(e.Data, &data) == nil {
			out = append(out, data.Content...)
		}
	}
	return out
}

// answer is the server for runClient. It echoes the line "e". After the line "r" it
// writes bytes until the client closes the connection.
func answer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b := make([]byte, 256<<10)
			_, err := io.ReadFull(c, b[:2])
			if b[0] == 'e' && err == nil {
				_, _ = c.Write(b[:2])
				_, _ = c.Read(b) // wait until the client closes the connection
				return
			}
			for err == nil {
				_, err = c.Write(b)
			}
		}()
	}
}

// runClient measures connections to a server that runs answer, and writes the result to
// out as JSON. args are the address, the number of connections, and the bytes to read.
func runClient(_ context.Context, args []string, out io.Writer) {
	var r reached
	for range must(strconv.Atoi(args[1])) {
		r.Took = append(r.Took, timed(func() {
			c := must(net.Dial("tcp", args[0]))
			defer c.Close()
			must(io.WriteString(c, "e\n"))
			must(io.ReadFull(c, make([]byte, 2)))
		}))
	}
	c, n := must(net.Dial("tcp", args[0])), must(strconv.ParseInt(args[2], 10, 64))
	defer c.Close()
	must(io.WriteString(c, "r\n"))
	took := timed(func() {
		must(io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(c, n), make([]byte, 256<<10)))
	})
	r.Rate = float64(n) / took.Seconds()
	check(json.NewEncoder(out).Encode(r))
}

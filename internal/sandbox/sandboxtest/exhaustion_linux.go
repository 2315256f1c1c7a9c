package sandboxtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/sandbox"
)

// Resource limits of the exhaustion tests, in bytes if not stated otherwise. They are
// small. If a limit does not work, the test program stops at a fixed maximum.
const (
	memoryLimit  = 128 << 20
	processLimit = 64 // processes and threads
	diskLimit    = 8 << 20
	diskUseMB    = 24 // MB that the program of a disk test writes
)

func init() {
	memory := func(e sandbox.Enforced) bool { return e.Memory }
	for _, kind := range []string{"shared memory", "memfd files", "a shared mapping", "a System V segment", "many processes"} {
		limitCases["memory limit: "+kind] = limitCase{memory, func(w *world) { memoryExhaustion(w, kind) }}
	}
	disk := func(e sandbox.Enforced) bool { return e.Disk }
	for _, kind := range []string{"the workspace", "the home", "tmp", "preallocated space", "a sparse file", "a mapped file", "a deleted file", "an unnamed file", "an inaccessible folder", "many files"} {
		limitCases["disk limit: "+kind] = limitCase{disk, func(w *world) { diskExhaustion(w, kind) }}
	}
	pids := func(e sandbox.Enforced) bool { return e.Pids }
	limitCases["process tree bomb"] = limitCase{pids, processTreeBomb}
	limitCases["many threads"] = limitCase{pids, manyThreads}
	limitCases["disk usage follows no links"] = limitCase{disk, diskUsageFollowsNoLinks}
	hostileCases["output that is not read"] = outputNotRead
	hostileCases["output after the exit"] = outputAfterExit
	for _, thing := range []string{"inotify instances", "pipes", "segments", "ports"} {
		hostileCases["per-user limit: "+thing] = func(w *world) { perUserLimit(w, thing) }
	}
}

// withNeighbor calls attack while a normal program runs in another sandbox. The test
// fails if the attack disturbs that program.
func (w *world) withNeighbor(attack func()) {
	w.Helper()
	in, until := io.Pipe()
	s := w.spec()
	s.Resources = sandbox.Resources{Memory: 2 * memoryLimit, Disk: 64 << 20, Pids: 128}
	c := command("neighbor")
	c.Stdin = in
	r := w.start(w.prepare(s), c)
	w.awaitText(r.stdout, "ready")
	attack()
	w.must(until.Close())
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func memoryExhaustion(w *world, kind string) {
	s := w.spec()
	s.Resources.Memory = memoryLimit
	w.withNeighbor(func() {
		r := w.launch(s, "use-memory", kind, "384")
		e := w.wait(r)
		if e.Code == 0 || strings.Contains(r.stdout.String(), "allocated") {
			w.Errorf("384 MB of %s with a limit of 128: exit %+v", kind, e)
		}
		u, err := r.Usage(w.Context())
		w.must(err)
		full := strings.Contains(r.stderr.String(), "no space left") || strings.Contains(r.stderr.String(), "cannot allocate")
		if !full && e.Cause != sandbox.OOMKilled && u.OOMKills == 0 {
			w.Errorf("exit %+v with usage %+v: not because of memory; stderr %s", e, u, r.stderr)
		}
		if u.MemoryPeak > memoryLimit+memoryLimit/8 {
			w.Errorf("peak usage is %d MB", u.MemoryPeak>>20)
		}
	})
}

// diskExhaustion checks that a command that uses disk space in the given way ends with
// the cause DiskFull. The limit may be exceeded briefly.
func diskExhaustion(w *world, kind string) {
	s := w.spec()
	s.Resources.Disk = diskLimit
	w.withNeighbor(func() {
		r := w.launch(s, "use-disk", kind, strconv.Itoa(diskUseMB))
		ctx, cancel := context.WithTimeout(w.Context(), testTimeout)
		defer cancel()
		e, err := r.Wait(ctx)
		if err != nil {
			w.Errorf("%d MB of disk with a limit of 8: the command still runs: %s", diskUseMB, kind)
			w.kill(r, 0)
			return
		}
		if e.Cause != sandbox.DiskFull {
			w.Errorf("exit %+v, want cause %s; stderr %s", e, sandbox.DiskFull, r.stderr)
		}
	})
	w.must(sandbox.Remove(s.Workspace))
}

// processTreeBomb checks the process limit with a program that would otherwise run as
// a tree of 511 processes.
func processTreeBomb(w *world) {
	m := newMarker()
	s := w.spec()
	s.Resources.Pids = processLimit
	w.withNeighbor(func() {
		r := w.launch(s, "fork-tree", m, "8")
		deadline := time.Now().Add(testTimeout)
		most := int64(0)
		for full := 0; full < 5; { // until five measurements are close to the limit
			u, err := r.Usage(w.Context())
			w.must(err)
			most = max(most, u.Pids)
			if u.Pids >= processLimit*3/4 {
				full++
			}
			if time.Now().After(deadline) {
				w.Fatalf("only %d processes were started", most)
			}
		}
		if most > processLimit+32 { // the driver itself may use up to 32 threads
			w.Errorf("%d processes and threads with a limit of %d", most, processLimit)
		}
		w.kill(r, 0)
		w.wantExit(r, killedExit)
	})
	w.wantGone(m)
}

func manyThreads(w *world) {
	s := w.spec()
	s.Resources.Pids = processLimit
	w.withNeighbor(func() {
		r := w.launch(s, "threads", "10000")
		if e := w.wait(r); e.Code == 0 || strings.Contains(r.stdout.String(), "threads") {
			w.Errorf("exit %+v: %s", e, r.stdout)
		}
	})
	free := w.spec()
	w.want("without a limit", "100 threads\n200 threads\n", w.succeed(free, "threads", "200"))
}

// outputNotRead runs a command with a large output while the caller's writer blocks. The
// command must block too; otherwise its output would fill the server's memory.
func outputNotRead(w *world) {
	const mb = 256
	s := w.spec()
	g := &gatedCounter{open: make(chan struct{})}
	c := command("write-output", strconv.Itoa(mb))
	c.Stdout = g
	r := w.start(w.prepare(s), c)
	w.awaitCondition("the flood", func() bool { return progress(s.Workspace) > 0 })
	w.withNeighbor(func() {})
	if at := progress(s.Workspace); at > 8<<20 {
		w.Errorf("%d MB were written without a reader", at>>20)
	}
	close(g.open)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if g.taken.Load() != mb<<20 {
		w.Errorf("%d bytes were read of %d", g.taken.Load(), mb<<20)
	}
}

// gatedCounter is a writer that blocks until open is closed, and counts the bytes that
// it receives.
type gatedCounter struct {
	open  chan struct{}
	taken atomic.Int64
}

func (g *gatedCounter) Write(p []byte) (int, error) {
	<-g.open
	g.taken.Add(int64(len(p)))
	return len(p), nil
}

func progress(workspace string) int64 {
	b, err := os.ReadFile(filepath.Join(workspace, "progress"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// awaitCondition waits until done returns true. It fails the test after testTimeout.
func (w *world) awaitCondition(what string, done func() bool) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testTimeout); !done(); <-tick.C {
		if time.Now().After(deadline) {
			w.Fatalf("%s does not happen", what)
		}
	}
}

// outputAfterExit runs a command that ends, but leaves behind a process that keeps
// writing to the command's output. Wait must return, and the caller's writer must not
// be called afterwards.
func outputAfterExit(w *world) {
	g := &gatedCounter{open: make(chan struct{})}
	close(g.open)
	c := command("keep-writing", newMarker())
	c.Stdout = g
	r := w.start(w.prepare(w.spec()), c)
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	at := g.taken.Load()
	w.withNeighbor(func() {})
	w.want("bytes after the end", fmt.Sprint(at), fmt.Sprint(g.taken.Load()))
	w.kill(r, 0)
	w.must(r.Close(w.Context()))
}

// perUserLimit checks that a sandbox that exhausts a per-user resource of the
// kernel does not affect other sandboxes or the server.
func perUserLimit(w *world, thing string) {
	if thing == "pipes" && w.driver.Probe(w.Context()).Rootless {
		return // all sandboxes share one user's limit, and above it the kernel only creates smaller pipes
	}
	r := w.launch(w.spec(), "exhaust", thing)
	w.awaitText(r.stdout, "ready")
	other := w.launch(w.spec(), "allocate-one", thing)
	w.wantExit(other, sandbox.Exit{Cause: sandbox.Exited})
	if out, err := w.runOnHost("allocate-one", thing); err != nil {
		w.Errorf("the server cannot allocate one: %v, %s", err, out)
	}
	w.kill(r, 0)
}

// diskUsageFollowsNoLinks measures the disk usage while a program repeatedly exchanges
// a folder with a symbolic link to a folder of the host. The host's files must not be
// counted.
func diskUsageFollowsNoLinks(w *world) {
	victim := filepath.Join(w.dir, "victim")
	w.must(os.Mkdir(victim, 0o755))
	w.must(os.WriteFile(filepath.Join(victim, "big"), make([]byte, 4*diskLimit), 0o644))
	s := w.spec()
	s.Resources.Disk = diskLimit
	r := w.launch(s, "swap", victim)
	w.awaitText(r.stdout, "ready")
	for range 2000 {
		u, err := r.Usage(w.Context())
		w.must(err)
		if u.Disk > diskLimit {
			w.Fatalf("%d bytes are measured in an empty sandbox", u.Disk)
		}
		if strings.Contains(r.stdout.String(), "done") {
			break
		}
	}
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

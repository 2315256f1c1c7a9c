package hostile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
)

// limitAttacks exceed their limits. If a limit is not enforced, the attack ends by
// itself before it affects the machine.
var limitAttacks = []attack{
	{"memory", memory},
	{"memory of several processes", memoryOfSeveral},
	{"shared memory", sharedMemory},
	{"disk", func(w *tenant) { disk(w, `f = open("big", "wb")`) }},
	{"disk in tmp", func(w *tenant) { disk(w, `f = open("/tmp/big", "wb")`) }},
	{"disk by a deleted file", func(w *tenant) { disk(w, `f = open("big", "wb"); os.unlink("big")`) }},
	{"disk by many files", manyFiles},
	{"output", output},
	{"output without a newline", outputWithoutLines},
	{"processes", forkBomb},
	{"time", overtime},
	{"daemons after the end", daemons},
	{"ignoring signals", ignoreSignals},
}

const small = `,"resources":{"memory":"128MiB","disk":"16MiB","pids":48,"cpu":1}`

// leftBehind is part of the command line of each process that must end with its run. No
// other test on this machine uses it.
var leftBehind = fmt.Sprintf("86399.%07d", os.Getpid())

func memory(w *tenant) {
	w.agent("small", small)
	w.withOther(func() {
		r := w.fails(stint.ReasonOutOfMemory, stint.NewRun{Agent: "small", Prompt: python("b = bytearray(512 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('survived')")})
		if strings.Contains(w.output(r.ID), "survived") {
			w.Error("it could use four times its limit")
		}
	})
}

// memoryOfSeveral starts six processes that allocate memory. Each process keeps its
// memory until all others have allocated theirs or were killed.
func memoryOfSeveral(w *tenant) {
	w.agent("small", small)
	r := w.ended(w.create(stint.NewRun{Agent: "small", Timeout: late, Prompt: `
cat > /tmp/eat.py <<'END'
import os, sys, time
b = b"x" * (48 << 20)
open("done." + sys.argv[1], "w").close()
while sum(name.startswith("done.") for name in os.listdir(".")) < 6: time.sleep(0.05)
print("survived")
END
for i in 1 2 3 4 5 6; do (python3 /tmp/eat.py $i; touch done.$i) & done
wait`}).ID)
	if n := strings.Count(w.output(r.ID), "survived"); n > 2 {
		w.Errorf("%d of 6 processes had 48 MB of 128 MB at the same time", n)
	}
}

func sharedMemory(w *tenant) {
	w.agent("small", small)
	r := w.ended(w.create(stint.NewRun{Agent: "small", Prompt: python(`
with open("/dev/shm/big", "wb") as f:
    for i in range(512): f.write(b"x" * (1 << 20))
print("survived")`)}).ID)
	if r.Status == stint.Completed || strings.Contains(w.output(r.ID), "survived") {
		w.Errorf("the run is %s with 512 MB of shared memory and a limit of 128 MB", r.Status)
	}
}

// late is the time limit of runs that must reach another limit first. It is long,
// because reaching a limit takes long on a busy machine.
const late = "150s"

// disk runs a Python program that exceeds the disk limit and then waits. The Python
// statement open opens the file f, to which the program writes.
func disk(w *tenant, open string) {
	w.agent("small", small)
	w.withOther(func() {
		w.fails(stint.ReasonDiskFull, stint.NewRun{Agent: "small", Timeout: late, Prompt: python("import os, time\n" + open + `
for i in range(64): f.write(b"x" * (1 << 20))
f.flush()
print("written", flush=True)
time.sleep(600)`)})
	})
}

func manyFiles(w *tenant) {
	w.agent("small", small)
	w.fails(stint.ReasonDiskFull, stint.NewRun{Agent: "small", Timeout: late, Prompt: python(`
import os, time
for i in range(20000):
    if i % 1000 == 0: os.makedirs("d%d" % (i // 1000))
    os.close(os.open("d%d/%d" % (i // 1000, i), os.O_CREAT))
time.sleep(600)`)})
}

func output(w *tenant) {
	const limit = 1 << 20
	w.withOther(func() {
		r := w.fails(stint.ReasonOutputLimit, stint.NewRun{Prompt: "yes 'a line of output'", Timeout: late, Limits: &stint.Limits{OutputBytes: limit}})
		if n := len(w.output(r.ID)); n > limit || n < limit/2 {
			w.Errorf("%d bytes were stored, the limit is %d", n, limit)
		}
	})
}

func outputWithoutLines(w *tenant) {
	const limit = 1 << 20
	r := w.fails(stint.ReasonOutputLimit, stint.NewRun{Prompt: `tr '\0' 'x' < /dev/zero`, Timeout: late, Limits: &stint.Limits{OutputBytes: limit}})
	if n := len(w.output(r.ID)); n > limit || n < limit/2 {
		w.Errorf("%d bytes were stored, the limit is %d", n, limit)
	}
	for _, e := range w.journal(r.ID) {
		if len(e.Data) > 256<<10 {
			w.Errorf("an event has %d bytes", len(e.Data))
		}
	}
}

// forkBomb starts processes recursively for some seconds.
func forkBomb(w *tenant) {
	w.agent("small", small)
	w.withOther(func() {
		r := w.ended(w.create(stint.NewRun{Agent: "small", Timeout: "3s", Prompt: `
end=$((SECONDS+10))
bomb() { [ $SECONDS -gt $end ] && return; bomb 2>/dev/null | bomb 2>/dev/null & }
bomb; bomb; sleep ` + leftBehind}).ID)
		if r.Status == stint.Completed {
			w.Errorf("the run of the fork bomb is %s", r.Status)
		}
	})
}

// overtime checks that the time limit ends a run even if its processes ignore signals.
func overtime(w *tenant) {
	r := w.ended(w.create(stint.NewRun{Timeout: "1s", Prompt: `
trap '' TERM INT HUP
(trap '' TERM; setsid bash -c 'trap "" TERM; while :; do sleep ` + leftBehind + `; done' &)
echo ready
while :; do sleep 0.1; done`}).ID)
	if r.Status != stint.TimedOut || installation.Value(r.StatusReason) != stint.ReasonTimeLimit {
		w.Errorf("the run is %s, %s", r.Status, installation.Value(r.StatusReason))
	}
}

// daemons checks that daemons that ignore signals and leave their session end with
// their run.
func daemons(w *tenant) {
	w.run(stint.NewRun{Prompt: `
for i in 1 2 3; do
	(trap '' TERM HUP; setsid nohup bash -c 'trap "" TERM HUP; exec -a daemon sleep ` + leftBehind + `' > /dev/null 2>&1 &)
	(setsid sleep ` + leftBehind + ` &)
done
sleep 0.2; echo done`})
	w.host.waitUntil(w.T, "the end of the daemons", func() bool { return len(withCommand(leftBehind, "daemon")) == 0 })
}

// withCommand returns the paths /proc/PID/cmdline of the processes that have all words
// in their command line.
func withCommand(words ...string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		all := len(b) > 0
		for _, word := range words {
			all = all && strings.Contains(string(b), word)
		}
		if all {
			found = append(found, f)
		}
	}
	return found
}

// ignoreSignals checks that the processes of a cancelled run end although they ignore
// SIGTERM.
func ignoreSignals(w *tenant) {
	r := w.create(stint.NewRun{Prompt: `trap '' TERM; (trap '' TERM; exec -a deaf sleep ` + leftBehind + `) & echo ready; wait; while :; do sleep 0.1; done`})
	w.host.waitUntil(w.T, "the start", func() bool { return strings.Contains(w.output(r.ID), "ready") })
	got, err := w.client.Runs.Cancel(w.Context(), r.ID)
	installation.Check(w, err)
	if got.Status != stint.Cancelled {
		w.Errorf("the response to the cancel has the status %s", got.Status)
	}
	w.host.waitUntil(w.T, "the end of the process", func() bool { return len(withCommand(leftBehind, "deaf")) == 0 })
}

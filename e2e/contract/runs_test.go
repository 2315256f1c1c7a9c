package contract_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/e2e/installation"
	"github.com/stint-dev/stint/internal/testkit/requirement"
)

var runCases = []testCase{
	{"a run's fields at its creation", createdRun},
	{"a run's fields while it runs", runningRun},
	{"a completed run's fields", completedRun},
	{"a failed run's fields", failedRun},
	{"every status and its filter", everyStatus},
	{"list items have eight fields", listItems},
	{"filters of the run list", runFilters},
	{"cancel of a running run", cancelRunning},
	{"cancel of a pending run", cancelPending},
	{"cancel of an ended run", cancelEnded},
	{"output limit", outputLimit},
	{"command framework", commandFramework},
	{"a program that does not exist", missingProgram},
	{"signals and unusual exit codes", oddExits},
	{"metrics", metrics},
	{"limits of memory and disk", resourceLimits},
	{"limit of processes", processLimit},
}

// members are the JSON members of the run that a create request returns. A run that is
// read has the member volumes, too.
var members = []string{
	"agentId", "agentName", "artifactName", "artifactVersion", "attempt", "attempts", "checkpointId", "completedAt", "createdAt", "createdBy", "error", "executionTimeMs",
	"exitCode", "id", "imageDigest", "isolation", "metadata", "parentRunId", "prompt", "queue", "result", "sessionId", "startedAt", "status", "statusMessage", "statusReason",
	"traceId", "usage", "workerId",
}

func (w *tenant) object(path string) (o object) {
	w.Helper()
	w.get(path, &o)
	return o
}

// checkNulls checks that o has the members in null with the value null, and the members
// in set with other values.
func (w *tenant) checkNulls(o object, null, set []string) {
	w.Helper()
	for _, name := range null {
		if v, there := o[name]; !there || v != nil {
			w.Errorf("%s is %v, not null", name, v)
		}
	}
	for _, name := range set {
		if o[name] == nil {
			w.Errorf("%s is not set", name)
		}
	}
}

func keys(o object) []string { return slices.Sorted(maps.Keys(o)) }

func createdRun(w *tenant) {
	for _, more := range []object{{}, {"artifactName": "out", "variables": object{"A": "1"}, "secrets": object{"S": "hush"}, "metadata": object{"k": "v"}}} {
		var o object
		a := w.do(request{method: "POST", path: "/v1/runs", body: w.newRun(more)})
		decode(w, a.body, &o)
		w.equal("status", 202, a.StatusCode)
		w.equal("members", members, keys(o))
		w.checkNulls(o, []string{"error", "executionTimeMs", "checkpointId", "artifactName", "artifactVersion", "startedAt", "completedAt", "statusReason", "statusMessage", "workerId", "isolation", "imageDigest", "exitCode", "usage", "parentRunId"},
			[]string{"sessionId"})
		w.equal("agent", []any{w.shell.ID, "shell", "pending", "true"}, []any{o["agentId"], o["agentName"], o["status"], o["prompt"]})
		if !stint.IsID(stint.PrefixRun, o["id"].(string)) || !stint.IsID(stint.PrefixSession, o["sessionId"].(string)) {
			w.Errorf("identifiers %v, %v", o["id"], o["sessionId"])
		}
		if t, err := stint.ParseTime(o["createdAt"].(string)); err != nil || t.String() != o["createdAt"] {
			w.Errorf("createdAt is %v", o["createdAt"])
		}
		w.awaitStatus(o["id"].(string), stint.Completed)
	}
}

func runningRun(w *tenant) {
	r := w.startRun(object{"prompt": "sleep 600", "artifactName": "out"})
	o := w.object("/v1/runs/" + r.ID)
	w.equal("members", slices.Sorted(slices.Values(append([]string{"volumes"}, members...))), keys(o))
	w.checkNulls(o, []string{"error", "executionTimeMs", "checkpointId", "completedAt", "statusReason", "exitCode", "artifactVersion"}, []string{"startedAt", "sessionId", "volumes"})
	w.equal("status", "running", o["status"])
	var m object
	w.get("/v1/runs/"+r.ID+"/metrics", &m)
	if total, there := m["summary"].(object)["totalDurationMs"]; !there || total != nil {
		w.Errorf("totalDurationMs of a running run is %v", total)
	}
	w.cancel(r.ID)
}

func completedRun(w *tenant) {
	v := w.volume("data", object{"a.txt": "x"})
	r := w.run(object{"prompt": "echo hi > out.txt", "artifactName": "out", "volumes": object{"data": "latest"}})
	o := w.object("/v1/runs/" + r.ID)
	w.checkNulls(o, []string{"error", "statusReason", "parentRunId"}, []string{
		"executionTimeMs", "checkpointId", "sessionId", "artifactName", "artifactVersion", "startedAt", "completedAt", "exitCode",
	})
	w.equal("artifact", "out", o["artifactName"])
	w.equal("volumes", any(object{"data": v.ID}), o["volumes"])
	w.equal("exitCode", any(0.0), o["exitCode"])
	if !stint.IsFileSetVersion(*r.ArtifactVersion) || !stint.IsID(stint.PrefixCheckpoint, *r.CheckpointID) {
		w.Errorf("artifactVersion %s, checkpointId %s", *r.ArtifactVersion, *r.CheckpointID)
	}
	if r.StartedAt.Before(r.CreatedAt.Time) || r.CompletedAt.Before(r.StartedAt.Time) {
		w.Errorf("created %s, started %s, completed %s", r.CreatedAt, r.StartedAt, r.CompletedAt)
	}
	if ms := r.CompletedAt.Sub(r.StartedAt.Time).Milliseconds(); ms != *r.ExecutionTimeMs {
		w.Errorf("executionTimeMs is %d, from start to end there are %d", *r.ExecutionTimeMs, ms)
	}
	none := w.run(object{})
	w.checkNulls(w.object("/v1/runs/"+none.ID), []string{"artifactName", "artifactVersion"}, []string{"volumes", "checkpointId"})
}

func failedRun(w *tenant) {
	r := w.awaitStatus(w.create(object{"prompt": "echo fine; echo 'the reason is xyzzy' >&2; exit 3"}).ID, stint.Failed)
	w.checkNulls(w.object("/v1/runs/"+r.ID), nil, []string{"error", "executionTimeMs", "checkpointId", "startedAt", "completedAt"})
	w.equal("exitCode", 3, installation.Value(r.ExitCode))
	w.equal("statusReason", stint.ReasonExitCode, installation.Value(r.StatusReason))
	if text := installation.Value(r.Error); !strings.HasSuffix(text, "the reason is xyzzy") || !strings.Contains(text, "3") {
		w.Errorf("the error is %q", text)
	}
}

// runInEachStatus creates a run for each status, waits until each run has its status,
// and returns the IDs of the runs.
func (w *tenant) runInEachStatus() map[stint.Status]string {
	w.Helper()
	running := w.startRun(object{"prompt": "sleep 600"})
	ids := map[stint.Status]string{
		stint.Running:   running.ID,
		stint.Pending:   w.create(object{"sessionId": running.SessionID}).ID, // waits for the running run of its session
		stint.Completed: w.create(object{}).ID,
		stint.Failed:    w.create(object{"prompt": "exit 1"}).ID,
		stint.TimedOut:  w.create(object{"prompt": "sleep 600", "timeout": "1s"}).ID,
		stint.Cancelled: w.create(object{"prompt": "sleep 600"}).ID,
	}
	w.cancel(ids[stint.Cancelled])
	for status, id := range ids {
		w.awaitStatus(id, status)
	}
	return ids
}

func everyStatus(w *tenant) {
	ids := w.runInEachStatus()
	for status, id := range ids {
		var got []string
		for _, r := range list[stint.RunSummary](w, "/v1/runs?status="+string(status), nil) {
			got = append(got, r.ID)
			if r.Status != status {
				w.Errorf("the list of %s has one that is %s", status, r.Status)
			}
		}
		w.equal("list of "+string(status), []string{id}, got)
	}
	r := w.read(ids[stint.TimedOut])
	w.equal("reason of the timeout", stint.ReasonTimeLimit, installation.Value(r.StatusReason))
	w.equal("message of the timeout", "The run exceeded its time limit of 1s.", installation.Value(r.StatusMessage))
	for status, id := range ids {
		r := w.read(id)
		if (r.Error != nil) != (status == stint.Failed) || (r.StatusMessage != nil) != (status.Final() && status != stint.Completed) {
			w.Errorf("the run that is %s has the error %v and the message %v", status, r.Error, r.StatusMessage)
		}
	}
	if installation.Value(r.ExecutionTimeMs) < 1000 {
		w.Errorf("executionTimeMs is %d", installation.Value(r.ExecutionTimeMs))
	}
	for _, bad := range []string{"done", "", "Completed", "completed,done", "timed_out"} {
		w.wantError(request{method: "GET", path: "/v1/runs?status=" + bad}, 400, invalid, "status")
	}
	w.cancel(ids[stint.Pending])
	w.cancel(ids[stint.Running])
}

func listItems(w *tenant) {
	w.run(object{"artifactName": "out", "metadata": object{"a": "b"}})
	w.awaitStatus(w.create(object{"prompt": "exit 1"}).ID, stint.Failed)
	running := w.startRun(object{"prompt": "sleep 600"})
	want := []string{"agentId", "agentName", "completedAt", "createdAt", "id", "prompt", "startedAt", "status"}
	items := list[object](w, "/v1/runs", nil)
	w.equal("items", 3, len(items))
	for _, item := range items {
		w.equal("members", want, keys(item))
		one := w.object("/v1/runs/" + item["id"].(string))
		for name, v := range item {
			w.equal(name, one[name], v)
		}
	}
	w.cancel(running.ID)
}

func runFilters(w *tenant) {
	w.agent("another", nil)
	first := w.run(object{"prompt": "echo first", "metadata": object{"ticket": "47 11", "a[b]": "ü"}})
	second := w.run(object{"prompt": "echo second", "agent": "another", "metadata": object{"ticket": "47 11"}})
	third := w.run(object{"prompt": "echo third", "sessionId": first.SessionID})
	at := func(t stint.Time) string { return url.QueryEscape(t.String()) }
	for query, want := range map[string][]string{
		"":                                    {third.ID, second.ID, first.ID},
		"agentId=" + second.AgentID:           {second.ID},
		"agentId=ag_nonsense":                 nil,
		"sessionId=" + first.SessionID:        {third.ID, first.ID},
		"sessionId=" + second.ID:              nil,
		"metadata[ticket]=47%2011":            {second.ID, first.ID},
		"metadata%5Bticket%5D=47+11":          {second.ID, first.ID},
		"metadata[a[b]]=%C3%BC":               {first.ID},
		"metadata[ticket]=47":                 nil,
		"metadata[ticket]=47+11&metadata[x]=": nil,
		"since=" + at(second.CreatedAt):       {third.ID, second.ID},
		"until=" + at(second.CreatedAt):       {second.ID, first.ID},
		"since=" + at(second.CreatedAt) + "&until=" + at(second.CreatedAt):      {second.ID},
		"status=completed&agentId=" + first.AgentID + "&metadata[ticket]=47+11": {first.ID},
		"status=failed&agentId=" + first.AgentID:                                nil,
	} {
		var got []string
		for _, r := range list[stint.RunSummary](w, "/v1/runs?"+query, nil) {
			got = append(got, r.ID)
		}
		w.equal(query, want, got)
	}
	for _, bad := range []string{"since=yesterday", "until=2026-01-02", "since=", "agentId=a&agentId=b"} {
		w.wantError(request{method: "GET", path: "/v1/runs?" + bad}, 400, invalid)
	}
}

// processes returns the number of processes of this machine, including those in
// sandboxes, that have the mark in their command line.
func processes(mark string) (n int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range found {
		if raw, err := os.ReadFile(p); err == nil && strings.Contains(string(raw), mark) {
			n++
		}
	}
	return n
}

func cancelRunning(w *tenant) {
	mark := fmt.Sprintf("600.%d", time.Now().UnixNano()) // unique among the tests, which run in parallel for each database
	r := w.startRun(object{"prompt": "trap '' TERM\nsleep " + mark + " & (setsid sleep " + mark + " &)\nsleep " + mark, "artifactName": "out"})
	w.waitUntil("the agent's processes", func() bool { return processes(mark) == 3 })
	got := w.cancel(r.ID)
	w.equal("status in the response", stint.Cancelled, got.Status)
	w.equal("reason in the response", stint.ReasonCancelled, installation.Value(got.StatusReason))
	if got.CompletedAt == nil || got.Error != nil || got.ExecutionTimeMs == nil {
		w.Errorf("completedAt %v, error %v, executionTimeMs %v", got.CompletedAt, got.Error, got.ExecutionTimeMs)
	}
	w.equal("status after", stint.Cancelled, w.read(r.ID).Status)
	w.waitUntil("the end of the processes", func() bool { return processes(mark) == 0 })
	w.waitUntil("a checkpoint", func() bool { return w.read(r.ID).CheckpointID != nil })
	after := w.read(r.ID)
	w.equal("status with its checkpoint", stint.Cancelled, after.Status)
	w.equal("completedAt with its checkpoint", got.CompletedAt, after.CompletedAt)
	last := w.journal(r.ID)
	w.equal("last event", stint.EventComplete, last[len(last)-1].Type)
}

func cancelPending(w *tenant) {
	first := w.startRun(object{"prompt": "sleep 600"})
	second := w.create(object{"sessionId": first.SessionID})
	third := w.create(object{"sessionId": first.SessionID})
	got := w.cancel(second.ID)
	w.equal("status", stint.Cancelled, got.Status)
	w.cancel(first.ID)
	w.awaitStatus(third.ID, stint.Completed)
	after := w.object("/v1/runs/" + second.ID)
	w.checkNulls(after, []string{"startedAt", "checkpointId", "error", "exitCode"}, []string{"completedAt", "executionTimeMs"})
	var types []string
	for _, e := range w.journal(second.ID) {
		types = append(types, string(e.Type))
	}
	w.equal("events", []string{"status", "status", "complete"}, types)
}

func cancelEnded(w *tenant) {
	ids := w.runInEachStatus()
	w.cancel(ids[stint.Pending])
	w.cancel(ids[stint.Running])
	w.waitUntil("the checkpoints of the cancelled", func() bool {
		return w.read(ids[stint.Running]).CheckpointID != nil && w.read(ids[stint.Cancelled]).StatusReason != nil
	})
	for status, id := range ids {
		now := status
		if status == stint.Pending || status == stint.Running {
			now = stint.Cancelled
		}
		if status == stint.Cancelled { // the run was cancelled before or after its start
			continue
		}
		before := w.object("/v1/runs/" + id)
		events := len(w.journal(id))
		w.wantError(request{method: "POST", path: "/v1/runs/" + id + "/cancel"}, 400, badState, string(now), id)
		w.equal("run after the refused cancel", before, w.object("/v1/runs/"+id))
		w.equal("events after the refused cancel", events, len(w.journal(id)))
	}
	w.wantError(request{method: "POST", path: "/v1/runs/" + ids[stint.Cancelled] + "/cancel"}, 400, badState, "cancelled")
}

func outputLimit(w *tenant) {
	r := w.awaitStatus(w.create(object{"prompt": "while :; do echo 0123456789abcdef; done", "limits": object{"outputBytes": "64KiB"}}).ID, stint.Failed)
	w.equal("reason", stint.ReasonOutputLimit, installation.Value(r.StatusReason))
	if n := len(w.output(r.ID)); n > 64<<10 || n < 32<<10 {
		w.Errorf("%d bytes of output were kept", n)
	}
	w.agent("quiet", object{"limits": object{"outputBytes": "1KiB"}})
	w.wantError(request{method: "POST", path: "/v1/runs", body: w.newRun(object{"agent": "quiet", "limits": object{"outputBytes": "2KiB"}})}, 400, invalid, "limits.outputBytes")
	w.wantError(request{method: "POST", path: "/v1/runs", body: w.newRun(object{"limits": object{"outputBytes": -1}})}, 400, invalid, "limits.outputBytes")
}

func commandFramework(w *tenant) {
	w.agent("cat", object{"framework": "command", "command": []string{"/bin/bash", "-c", `cat; echo; cat "$STINT_PROMPT_FILE"; echo; echo "$0 $1" "$PWD" "$HOME"`, "zero", "one two"}})
	out, _ := w.runOutput(object{"agent": "cat", "prompt": "über 'all'\nline two"})
	w.equal("output", "über 'all'\nline two\nüber 'all'\nline two\nzero one two /workspace /home/agent\n", out)
}

func missingProgram(w *tenant) {
	w.agent("absent", object{"framework": "command", "command": []string{"/no/such/program"}})
	r := w.awaitStatus(w.create(object{"agent": "absent"}).ID, stint.Failed)
	if !strings.Contains(installation.Value(r.Error), "/no/such/program") {
		w.Errorf("the error is %q", installation.Value(r.Error))
	}
}

func oddExits(w *tenant) {
	for script, code := range map[string]int{"exit 255": 255, "exit 1": 1, "kill -TERM $$": -1, "no-such-command-here": 127} {
		r := w.awaitStatus(w.create(object{"prompt": script}).ID, stint.Failed)
		if got := installation.Value(r.ExitCode); code > 0 && got != code {
			w.Errorf("%q returned exit code %d, want %d", script, got, code)
		}
		if installation.Value(r.Error) == "" || installation.Value(r.StatusReason) != stint.ReasonExitCode {
			w.Errorf("%q returned %q, %q", script, installation.Value(r.Error), installation.Value(r.StatusReason))
		}
	}
	if r := w.run(object{"prompt": "(sleep 600 &) ; exit 0"}); installation.Value(r.ExitCode) != 0 {
		w.Errorf("exit code %d", installation.Value(r.ExitCode))
	}
}

func metrics(w *tenant) {
	r := w.run(object{"prompt": "head -c 3000000 /dev/zero > big; sleep 3"})
	o := w.object("/v1/runs/" + r.ID + "/metrics")
	w.equal("members", []string{"data", "summary"}, keys(o))
	w.equal("members of the summary", []string{"avgCpuPercent", "maxMemoryUsedMb", "totalDurationMs"}, keys(o["summary"].(object)))
	var m stint.Metrics
	w.get("/v1/runs/"+r.ID+"/metrics", &m)
	if len(m.Data) < 3 {
		w.Fatalf("%d samples", len(m.Data))
	}
	w.equal("summary", stint.Summarize(m.Data, r.ExecutionTimeMs), m.Summary)
	for i, s := range m.Data {
		if i > 0 && s.Timestamp.Before(m.Data[i-1].Timestamp.Time) {
			w.Errorf("sample %d is before the one before", i)
		}
		if s.MemoryTotalMb != 2048 || s.DiskTotalMb != 10240 || s.MemoryUsedMb < 0 || s.CPUPercent < 0 {
			w.Errorf("sample %+v", s)
		}
	}
	if last := m.Data[len(m.Data)-1]; last.DiskUsedMb < 2 {
		w.Errorf("the last sample has %d MB of disk used", last.DiskUsedMb)
	}
	busy := w.run(object{"prompt": "timeout 1.3 bash -c 'while :; do :; done' || true"})
	w.get("/v1/runs/"+busy.ID+"/metrics", &m)
	if m.Summary.AvgCPUPercent <= 0 || m.Summary.AvgCPUPercent > 250 || m.Summary.MaxMemoryUsedMb > 2048 {
		w.Errorf("a busy run has %+v", m.Summary)
	}
	short := w.run(object{"prompt": ":"})
	w.get("/v1/runs/"+short.ID+"/metrics", &m)
	if len(m.Data) == 0 {
		w.Error("a short run has no sample")
	}
	w.equal("total of a short run", *short.ExecutionTimeMs, installation.Value(m.Summary.TotalDurationMs))
}

func resourceLimits(w *tenant) {
	w.agent("small", object{"resources": object{"memory": "32MiB", "disk": "4MiB", "pids": 16, "cpu": 1}})
	full := w.awaitStatus(w.create(object{"agent": "small", "prompt": "a=x; while :; do a=$a$a; done"}).ID, stint.Failed)
	w.equal("reason", stint.ReasonOutOfMemory, installation.Value(full.StatusReason))
	full = w.awaitStatus(w.create(object{"agent": "small", "prompt": "head -c 40000000 /dev/zero > big && echo WROTE; sleep 600"}).ID, stint.Failed)
	w.equal("reason", stint.ReasonDiskFull, installation.Value(full.StatusReason))
}

func processLimit(w *tenant) {
	requirement.Root(w) // without root, the limit requires a delegated control group
	w.agent("small", object{"resources": object{"memory": "32MiB", "disk": "4MiB", "pids": 16, "cpu": 1}})
	out, r := w.runOutput(object{"agent": "small", "prompt": "(for i in $(seq 40); do sleep 600 & done 2>/dev/null; echo forty) || echo limited"})
	w.equal("of forty processes", "limited\n", out)
	var m stint.Metrics
	w.get("/v1/runs/"+r.ID+"/metrics", &m)
	w.equal("totals", []int64{32, 4}, []int64{m.Data[0].MemoryTotalMb, m.Data[0].DiskTotalMb})
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stint-dev/stint"
)

// create offers creations of runs that stay pending: a sleeping run has the only
// place of the server.
func (l *lab) create(ctx context.Context) {
	disk := l.durableWrites(ctx)
	s := l.speaker(ctx, "--capacity", "1")
	s.sleeping(ctx)
	conns, post := l.dial(ctx, s.address, connections), s.post(agentName, "true")
	offer(ctx, conns, l.rate, l.each/8, post) // warm up
	m := offer(ctx, conns, l.rate, l.each, post)
	l.add(compare(fmt.Sprintf("POST /v1/runs, %s/s offered", number(l.rate)), m, anchorDurable, disk),
		atMost("p99", m.P99Ms, 10, "ms"), atLeast("rate", m.Rate, 0.98*l.rate, "/s"))
}

// echo measures, one run after the other, how soon a client that creates a run
// reads its first output.
func (l *lab) echo(ctx context.Context) {
	l.firstOutputs(ctx, "POST → first streamed output of `echo`", 15)
}

// firstOutputs measures runs on a server with the flags. The goal is in
// milliseconds.
func (l *lab) firstOutputs(ctx context.Context, what string, goal float64, flags ...string) {
	s := l.speaker(ctx, flags...)
	took := inTurn(ctx, warmUps, max(l.samples/4, 5), forkExec, l.firstOutput(s, agentName))
	m := latency(took[1])
	l.add(compare(what, m, anchorExec, latency(took[0])), atMost("p50", m.P50Ms, goal, "ms"))
}

// throughput measures many short runs at once, each from its creation to its end.
func (l *lab) throughput(ctx context.Context) {
	const callers = 16
	s := l.speaker(ctx)
	conns, post := l.dial(ctx, s.address, callers), s.post(agentName, "echo hello", "Prefer: wait=20")
	took := make([][]time.Duration, callers)
	row := compareRates(ctx, fmt.Sprintf("`echo` runs from creation to end, %d at once", callers),
		loopRate(callers, l.each/2, func(_ context.Context, i int) {
			begin := time.Now()
			r := conns[i].run(post)
			took[i] = append(took[i], time.Since(begin))
			expect(&r, stint.Completed)
		}),
		fmt.Sprintf("%s, %d at once", anchorExec, callers), forkExecRate(callers, l.anchor))
	rate := row.Measured.Rate
	row.Measured = latency(slices.Concat(took...))
	row.Measured.Rate = rate
	l.add(row)
}

// get reads an ended and a running run, beside a handler that only answers.
func (l *lab) get(ctx context.Context) {
	h, s := l.host(ctx, 0), l.speaker(ctx)
	bare := l.readRate(ctx, h.Address, request("GET", "/bare", "", ""))
	for _, r := range []struct {
		what, id string
		goal     float64
	}{
		{"GET an ended run", s.completed(ctx, stint.NewRun{Agent: agentName, Prompt: "echo hello"}), 0.5},
		{"GET a running run", s.sleeping(ctx), 0.35},
	} {
		row := compareRates(ctx, r.what, l.readRate(ctx, s.address, request("GET", "/v1/runs/"+r.id, s.token, "")), "bare handler", bare)
		l.add(row, atLeast("", row.Ratio, r.goal, "×"))
	}
}

// list reads the first page and a page from the middle of a list when the
// organisation has few runs, and again when it has very many.
func (l *lab) list(ctx context.Context) {
	const few = 1000
	dir := l.folder()
	s := l.start(ctx, dir)
	s.createAgent(ctx, agentDefinition)
	template := s.completed(ctx, stint.NewRun{Agent: agentName, Prompt: "echo hello"})
	s.stop()
	l.seed(ctx, dir, template, 0, few)
	short := l.pages(ctx, dir, few)
	seeding := timed(func() { l.seed(ctx, dir, template, few, l.listed) })
	long := l.pages(ctx, dir, l.listed)
	for i, what := range []string{"first page", "page in the middle"} {
		row := compare(fmt.Sprintf("%s of a list of %s runs", what, number(float64(l.listed))), latency(long[i]),
			fmt.Sprintf("of %s runs", number(few)), latency(short[i]))
		row.Note = fmt.Sprintf("%s rows were added in %.1f s.", number(float64(l.listed-few)), seeding.Seconds())
		l.add(row, atMost("", row.Ratio, 1.5, "×"))
	}
}

// pages measures both pages in turn.
func (l *lab) pages(ctx context.Context, dir string, runs int) [][]time.Duration {
	s := l.start(ctx, dir, "--capacity", "1")
	c := l.dial(ctx, s.address, 1)[0]
	page := func(query string) []byte { return request("GET", "/v1/runs?limit="+query, s.token, "") }
	cursor := ""
	for range max(runs/200, 1) { // 100 runs each, to the middle
		var p stint.Page[json.RawMessage]
		check(json.Unmarshal(c.do(http.StatusOK, page("100"+cursor)), &p))
		if p.Pagination.NextCursor == nil {
			check(errors.New("the list is too short"))
		}
		cursor = "&cursor=" + *p.Pagination.NextCursor
	}
	took := inTurn(ctx, warmUps, l.samples, c.repeat(page("20")), c.repeat(page("20"+cursor)))
	s.stop()
	return took
}

// serve measures the life of `stint serve` from outside: starts on an empty folder
// and on one in use, the memory of the idle server, and the restart after kill -9.
func (l *lab) serve(ctx context.Context) {
	var dir string
	var idle float64
	again := func(ctx context.Context) time.Duration {
		s := l.start(ctx, dir)
		time.Sleep(l.anchor / 4)
		idle = s.memory() / (1 << 20)
		s.stop()
		return s.ready
	}
	first := func(ctx context.Context) time.Duration {
		dir = l.folder()
		return again(ctx)
	}
	took := inTurn(ctx, 0, max(l.samples/50, 2), forkExec, first, again)
	for i, what := range []string{"start → ready, empty data folder", "start → ready, folder in use"} {
		m := latency(took[i+1])
		l.add(compare(what, m, anchorExec, latency(took[0])), atMost("p99", m.P99Ms, 300, "ms"))
	}
	l.add(Row{What: "memory of the idle server", Measured: Measure{Value: idle, Unit: "MiB"}}, atMost("", idle, 60, "MiB"))
	l.crash(ctx)
}

// crash kills a server with running and pending runs and measures how soon the
// next one serves. Every acknowledged run must be there.
func (l *lab) crash(ctx context.Context) {
	const running, pending = 8, 50
	dir, flags := l.folder(), []string{"--capacity", fmt.Sprint(running)}
	s := l.start(ctx, dir, flags...)
	s.createAgent(ctx, agentDefinition)
	var acknowledged []string
	for range running {
		acknowledged = append(acknowledged, s.sleeping(ctx))
	}
	for range pending {
		r := must(s.api.Runs.Create(ctx, stint.NewRun{Agent: agentName, Prompt: sleepScript}, nil))
		acknowledged = append(acknowledged, r.ID)
	}
	s.kill()
	s = l.start(ctx, dir, flags...)
	for _, id := range acknowledged {
		must(s.api.Runs.Get(ctx, id))
	}
	ready := milliseconds(s.ready)
	l.add(Row{
		What: fmt.Sprintf("kill -9 with %d running → serving", running), Measured: Measure{Value: ready, Unit: "ms"},
		Note: fmt.Sprintf("all %d acknowledged runs were there afterwards.", len(acknowledged)),
	}, atMost("", ready, 1000, "ms"))
}

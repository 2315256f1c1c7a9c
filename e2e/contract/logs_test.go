package contract_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint"
)

var logCases = []testCase{
	{"types, levels, and format of logs", logTypes},
	{"since and until are inclusive", logTimes},
	{"desc is the exact reverse", logOrder},
	{"a log that is followed", followedLog},
	{"invalid parameters of logs", logRefusals},
}

func logTypes(w *tenant) {
	r := w.run(object{"prompt": "echo one; echo two >&2; printf 'three\\nfour'"})
	at := "/v1/runs/" + r.ID + "/logs"
	all := list[stint.LogEntry](w, at, nil)
	w.equal("all is the default", all, list[stint.LogEntry](w, at+"?type=all&order=asc", nil))
	counts := map[stint.LogType][]string{}
	for i, e := range all {
		counts[e.Type] = append(counts[e.Type], e.Message)
		if !slices.Contains([]string{"debug", "info", "warn", "error"}, e.Level) || e.Metadata == nil || e.Message == "" {
			w.Errorf("entry %+v", e)
		}
		if i > 0 && e.Timestamp.Before(all[i-1].Timestamp.Time) {
			w.Errorf("entry %d is before the one before", i)
		}
	}
	for _, kind := range []stint.LogType{stint.LogAgent, stint.LogSystem, stint.LogNetwork} {
		var some []string
		for _, e := range list[stint.LogEntry](w, at+"?type="+string(kind), nil) {
			some = append(some, e.Message)
		}
		w.equal("type "+string(kind), counts[kind], some)
	}
	got := slices.Sorted(slices.Values(counts[stint.LogAgent]))
	w.equal("lines of the agent", []string{"four", "one", "three", "two"}, got)
	w.equal("network", 0, len(counts[stint.LogNetwork]))
	if len(counts[stint.LogSystem]) < 3 {
		w.Errorf("the system log is %q", counts[stint.LogSystem])
	}
	timed := false
	for _, e := range list[stint.LogEntry](w, at, nil) {
		if e.Type == stint.LogAgent {
			want := "stdout"
			if e.Message == "two" {
				want = "stderr"
			}
			w.equal("stream of "+e.Message, any(want), e.Metadata["stream"])
		}
		timed = timed || e.Type == stint.LogSystem && e.Metadata["durationMs"] != nil
	}
	if !timed {
		w.Error("no system entry has a timing")
	}
	raw := list[object](w, at, nil)
	w.equal("members", []string{"level", "message", "metadata", "timestamp", "type"}, keys(raw[0]))
}

// manyLines executes a run that writes many lines, some of them at the same time. It
// returns the path of the log and its entries.
func (w *tenant) manyLines() (at string, all []stint.LogEntry) {
	w.Helper()
	r := w.run(object{"prompt": "seq 1 60; sleep 0.05; seq 61 120; sleep 0.05; for i in 1 2 3 4 5; do echo slow $i; sleep 0.03; done"})
	at = "/v1/runs/" + r.ID + "/logs"
	all = list[stint.LogEntry](w, at, nil)
	if len(all) < 125 {
		w.Fatalf("%d entries", len(all))
	}
	return at, all
}

func logTimes(w *tenant) {
	at, all := w.manyLines()
	for _, i := range []int{0, 1, 30, len(all) / 2, len(all) - 2, len(all) - 1} {
		since, until := all[i].Timestamp, all[min(i+40, len(all)-1)].Timestamp
		for query, keep := range map[string]func(stint.Time) bool{
			"since=" + since.String():                              func(t stint.Time) bool { return !t.Before(since.Time) },
			"until=" + until.String():                              func(t stint.Time) bool { return !t.After(until.Time) },
			"since=" + since.String() + "&until=" + until.String(): func(t stint.Time) bool { return !t.Before(since.Time) && !t.After(until.Time) },
			"since=" + since.String() + "&until=" + since.String(): func(t stint.Time) bool { return t.Equal(since.Time) },
			"since=" + url.QueryEscape(since.In(time.FixedZone("", 7200)).Format("2006-01-02T15:04:05.000Z07:00")): func(t stint.Time) bool { return !t.Before(since.Time) },
		} {
			var want []stint.LogEntry
			for _, e := range all {
				if keep(e.Timestamp) {
					want = append(want, e)
				}
			}
			w.equal(query, want, list[stint.LogEntry](w, at+"?"+query, nil))
			slices.Reverse(want)
			w.equal(query+" desc", want, list[stint.LogEntry](w, at+"?order=desc&"+query, nil))
		}
	}
	w.equal("the future", 0, len(list[stint.LogEntry](w, at+"?since=2999-01-01T00:00:00Z", nil)))
	w.equal("the past", 0, len(list[stint.LogEntry](w, at+"?until=1999-01-01T00:00:00Z", nil)))
}

func logOrder(w *tenant) {
	at, all := w.manyLines()
	back := slices.Clone(all)
	slices.Reverse(back)
	for _, limit := range []int{1, 2, 7, 20, 100} {
		if limit == 1 && w.host.database != "" {
			continue // small pages need many requests; one database is enough
		}
		for order, want := range map[string][]stint.LogEntry{"asc": all, "desc": back} {
			var got []stint.LogEntry
			cursor := ""
			for {
				var page stint.Page[stint.LogEntry]
				w.get(fmt.Sprint(at, "?order=", order, "&limit=", limit, cursor), &page)
				if len(page.Data) > limit {
					w.Fatalf("a page of %d has %d", limit, len(page.Data))
				}
				got = append(got, page.Data...)
				if !page.Pagination.HasMore {
					break
				}
				cursor = "&cursor=" + *page.Pagination.NextCursor
			}
			w.equal(fmt.Sprint(order, " by ", limit), want, got)
		}
	}
	var page stint.Page[stint.LogEntry]
	w.get(at, &page)
	w.equal("default limit", 20, len(page.Data))
}

func followedLog(w *tenant) {
	r := w.run(object{"prompt": "echo one; echo two; echo three"})
	at := "/v1/runs/" + r.ID + "/logs?follow=true&type=agent&limit=2"
	var got []string
	for cursor := ""; ; {
		var page stint.Page[stint.LogEntry]
		w.get(at+cursor, &page)
		for _, e := range page.Data {
			got = append(got, e.Message)
		}
		if page.Pagination.NextCursor == nil {
			w.Fatalf("a page without cursor: %+v", page)
		}
		if cursor = "&cursor=" + *page.Pagination.NextCursor; !page.Pagination.HasMore {
			w.get(at+cursor, &page)
			w.equal("entries after the last", 0, len(page.Data))
			break
		}
	}
	w.equal("entries", []string{"one", "two", "three"}, got)
}

func logRefusals(w *tenant) {
	r := w.run(object{})
	for _, bad := range []string{
		"type=none", "type=", "type=Agent", "order=up", "order=", "since=now", "since=", "until=2026-13-01T00:00:00Z", "until=12", "limit=101", "limit=0", "type=agent&type=system",
		"follow=yes", "follow=true&order=desc", "follow=true&until=2026-01-01T00:00:00Z",
	} {
		name, _, _ := strings.Cut(bad, "=")
		w.wantError(request{method: "GET", path: "/v1/runs/" + r.ID + "/logs?" + bad}, 400, invalid, name)
	}
}

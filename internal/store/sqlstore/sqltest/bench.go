package sqltest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/store"
)

// Benchmarks measures a store as sub-benchmarks of b. open returns an empty store. seed adds
// n ended runs of the organisation Org by the statements SeedRuns and SeedSpecs.
func Benchmarks(b *testing.B, open func(testing.TB) store.Store, seed func(testing.TB, store.Store, int)) {
	b.Run("append/writers=64/events=1", func(b *testing.B) { appends(b, open(b), 64, 1) })
	b.Run("append/writers=64/events=16", func(b *testing.B) { appends(b, open(b), 64, 16) })
	b.Run("append/writers=1/events=1", func(b *testing.B) { appends(b, open(b), 1, 1) })
	b.Run("start/one-commit", func(b *testing.B) { starts(b, open(b), true) })
	b.Run("start/create-then-claim", func(b *testing.B) { starts(b, open(b), false) })
	b.Run("lifecycle/callers=32", func(b *testing.B) { lifecycles(b, open(b), 32) })
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("list/runs=%d", n), func(b *testing.B) {
			s := open(b)
			seed(b, s, n)
			pages(b, s, n)
		})
	}
}

// appends measures concurrent appends by the given number of writers, each to its own run.
// Each batch has the given number of events.
func appends(b *testing.B, s store.Store, writers, events int) {
	runs := StartRuns(b, s, writers)
	texts := make([]string, events)
	for i := range texts {
		texts[i] = randomText() // an event of about 256 bytes
	}
	took := make([][]time.Duration, writers)
	share := b.N/writers + 1
	b.ResetTimer()
	start := time.Now()
	var all sync.WaitGroup
	for i, at := range runs {
		all.Go(func() {
			for range share {
				batch, t := Batch(texts...), time.Now()
				head, err := s.Append(b.Context(), at, batch)
				if err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(t))
				at.After = head
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(share*writers*events)/time.Since(start).Seconds(), "events/s")
	percentiles(b, slices.Concat(took...))
}

// randomText returns about 200 bytes that compress about as well as an agent's output.
func randomText() string {
	var b strings.Builder
	for b.Len() < 200 {
		b.WriteString(rand.Text()[:7] + " the file ")
	}
	return b.String()
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}

// starts measures the time from the creation of a run to its claim. It starts one run at a
// time. If fused is true, one transaction creates and claims the run.
func starts(b *testing.B, s store.Store, fused bool) {
	worker := Worker(b, s)
	var took []time.Duration
	for b.Loop() {
		n, c := NewRun(0), store.ClaimRequest{WorkerID: worker, Max: 1, At: now()}
		t := time.Now()
		var claims []store.Claim
		var err error
		if fused {
			claims, err = s.CreateRun(b.Context(), n, &c)
		} else if _, err = s.CreateRun(b.Context(), n, nil); err == nil {
			claims, err = s.Claim(b.Context(), c)
		}
		took = append(took, time.Since(t))
		if err != nil || len(claims) != 1 {
			b.Fatalf("%d claims, %v", len(claims), err)
		}
		finish(b, s, claims[0])
	}
	percentiles(b, took)
}

func finish(b *testing.B, s store.Store, c store.Claim) {
	o := store.Outcome{Token: ids.New(""), Status: stint.Completed, At: now()}
	if _, err := s.Finish(b.Context(), c.Position, o); err != nil {
		b.Error(err)
	}
}

// lifecycles measures complete runs: the given number of goroutines creates runs, the
// calling goroutine claims them, and up to 200 goroutines finish them.
func lifecycles(b *testing.B, s store.Store, callers int) {
	c := store.ClaimRequest{WorkerID: Worker(b, s), Max: 100}
	share := b.N/callers + 1
	wake, slots := make(chan struct{}, 1), make(chan struct{}, 200)
	b.ResetTimer()
	start := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range share {
				if _, err := s.CreateRun(b.Context(), NewRun(0), nil); err != nil {
					b.Error(err)
					return
				}
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		})
	}
	for left := share * callers; left > 0 && !b.Failed(); {
		c.At = now()
		claims, err := s.Claim(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		if len(claims) == 0 {
			<-wake
		}
		left -= len(claims)
		for _, claim := range claims {
			slots <- struct{}{}
			all.Go(func() { finish(b, s, claim); <-slots })
		}
	}
	all.Wait()
	b.ReportMetric(float64(share*callers)/time.Since(start).Seconds(), "runs/s")
}

// pages measures reading the first page and a page in the middle of the list of n seeded
// runs, with and without filters.
func pages(b *testing.B, s store.Store, n int) {
	middle := store.Cursor{At: SeedTime(n / 2), ID: SeedID(n / 2)}
	for name, f := range map[string]store.RunFilter{
		"all": {}, "agent": {AgentID: "ag_7"}, "metadata": {Metadata: map[string]string{"batch": "7"}},
		"status": {Statuses: []stint.Status{stint.Failed}}, "statuses": {Statuses: []stint.Status{stint.Failed, stint.Completed}},
	} {
		for page, after := range map[string]store.Cursor{"first": {}, "middle": middle} {
			b.Run(name+"/"+page, func(b *testing.B) {
				for b.Loop() {
					list, err := s.RunSummaries(b.Context(), Org, f, store.Range{After: after, Limit: 20})
					if err != nil || len(list) != 20 {
						b.Fatalf("%d runs, %v", len(list), err)
					}
				}
			})
		}
	}
}

// SeedTime returns the creation time of seeded run number i. The seeded runs belong to the
// ten agents ag_0 to ag_9. The runs of ag_7 have failed; all others have completed.
func SeedTime(i int) stint.Time { return stint.TimeOfMicros(1_700_000_000_000_000 + int64(i)*1000) }

// SeedID returns the ID of seeded run number i.
func SeedID(i int) string { return fmt.Sprintf("run_%026d", i) }

// SeedRuns and SeedSpecs are statements that insert a run for each row of a table
// numbers (i). They use only functions that SQLite and PostgreSQL support.
const (
	seedID   = `'run_' || substr('00000000000000000000000000' || i, length('00000000000000000000000000' || i) - 25)`
	SeedRuns = `insert into runs (id, org_id, agent_id, agent_name, agent_version_id, session_id, status, ready, priority, epoch, worker_id,
			timeout_us, max_retries, created_at, started_at, completed_at, execution_ms, metadata)
		select ` + seedID + `, 'org_1', 'ag_' || (i % 10), 'bee', 'agv_1', 'sess_' || i, case when i % 10 = 7 then 'failed' else 'completed' end, 1, 0, 1, 'wrk_1',
			3600000000, 0, 1700000000000000 + i * 1000, 1700000000000000 + i * 1000, 1700000000000000 + i * 1000, 0,
			'{"batch":"' || (i % 10) || '","shard":"' || i || '"}' from numbers`
	SeedSpecs = `insert into run_specs (run_id, prompt, spec) select ` + seedID + `, 'count to three', '{}' from numbers`
)

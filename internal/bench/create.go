package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/stint-dev/stint"
)

// connections is how many clients a scenario of requests plays.
const connections = 32

// sleeper is a run's script that does nothing for longer than any scenario.
const sleeper = "sleep 600"

// benchCreate offers creations of runs that stay pending: the server's only
// place is taken by a run that sleeps.
func (l *lab) benchCreate(ctx context.Context) error {
	disk, err := durableWrites(ctx, l.dir, l.a.Anchor)
	if err != nil {
		return err
	}
	return l.withServer(ctx, func(s *service) error {
		if err := s.agent(ctx, "queued"); err != nil {
			return err
		}
		if _, err := s.start(ctx, "queued", sleeper); err != nil {
			return err
		}
		conns, closeAll, err := dialAll(ctx, s.address, connections)
		if err != nil {
			return err
		}
		defer closeAll()
		post := request("POST", "/v1/runs", s.token, newRun("queued", "true"))
		if _, err := offer(ctx, conns, l.a.OfferedRate, l.a.Each/8, post, http.StatusAccepted); err != nil { // warm
			return err
		}
		got, err := offer(ctx, conns, l.a.OfferedRate, l.a.Each, post, http.StatusAccepted)
		if err != nil {
			return err
		}
		m := latency(got.took)
		m.Rate = perSecond(len(got.took), got.elapsed)
		row := Row{
			What:     fmt.Sprintf("POST /v1/runs, %s/s offered", number(l.a.OfferedRate)),
			Measured: m,
			Goals:    []Goal{atMost("p99", m.P99Ms, 10, "ms"), atLeast("rate", m.Rate, 0.98*l.a.OfferedRate, "/s")},
		}
		d := latency(disk)
		l.add(row.compare(anchorDurable, d, m.P50Ms, d.P50Ms))
		return nil
	}, "--capacity", "1")
}

const anchorDurable = "one durable write"

// start creates a run and waits until it is running.
func (s *service) start(ctx context.Context, agent, prompt string) (string, error) {
	c, err := dial(ctx, s.address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	body, err := c.want(http.StatusAccepted, request("POST", "/v1/runs", s.token, newRun(agent, prompt)))
	if err != nil {
		return "", err
	}
	var run stint.Run
	for {
		if err := json.Unmarshal(body, &run); err != nil {
			return "", err
		}
		switch {
		case run.Status == stint.Running:
			return run.ID, nil
		case run.Status.Final():
			return "", fmt.Errorf("%s is %s: %s", run.ID, run.Status, reasonOf(&run))
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
		time.Sleep(2 * time.Millisecond)
		if body, err = c.want(http.StatusOK, request("GET", "/v1/runs/"+run.ID, s.token, "")); err != nil {
			return "", err
		}
	}
}

// finished creates a run and waits until it has completed.
func (s *service) finished(ctx context.Context, agent, prompt string) (string, error) {
	c, err := dial(ctx, s.address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.complete(request("POST", "/v1/runs", s.token, newRun(agent, prompt), "Prefer: wait=20"))
}

// complete sends a creation that waits for the run's end.
func (c *conn) complete(post []byte) (string, error) {
	body, err := c.want(http.StatusAccepted, post)
	if err != nil {
		return "", err
	}
	var run stint.Run
	if err := json.Unmarshal(body, &run); err != nil {
		return "", err
	}
	if run.Status != stint.Completed {
		return "", fmt.Errorf("%s is %s: %s", run.ID, run.Status, reasonOf(&run))
	}
	return run.ID, nil
}

// idOf reads the run's identifier from an answer.
func idOf(body []byte) (string, error) {
	var run stint.Run
	if err := json.Unmarshal(body, &run); err != nil {
		return "", err
	}
	return run.ID, nil
}

func reasonOf(r *stint.Run) string {
	if r.Error == nil {
		return "no error is given"
	}
	return *r.Error
}

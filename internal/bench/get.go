package bench

import (
	"context"
	"net/http"
)

// benchGet reads a run that has ended and one that goes on, again and again,
// beside a handler that only answers.
func (l *lab) benchGet(ctx context.Context) error {
	return l.withHost(ctx, func(_ *child, h hosted) error {
		return l.withServer(ctx, func(s *service) error {
			if err := s.agent(ctx, "speaker"); err != nil {
				return err
			}
			ended, err := s.finished(ctx, "speaker", "echo hello")
			if err != nil {
				return err
			}
			live, err := s.start(ctx, "speaker", sleeper)
			if err != nil {
				return err
			}
			if err := l.read(ctx, h, s, "GET a run that has ended", ended, 0.5); err != nil {
				return err
			}
			return l.read(ctx, h, s, "GET a run that goes on", live, 0.35)
		})
	}, hostBare)
}

// read measures the bare handler and the reading of a run in turn.
func (l *lab) read(ctx context.Context, h hosted, s *service, what, run string, goal float64) error {
	turns := make([]turn, rounds)
	for i := range turns {
		bare, err := l.readRate(ctx, h.Address, request("GET", "/", "", ""))
		if err != nil {
			return err
		}
		got, err := l.readRate(ctx, s.address, request("GET", "/v1/runs/"+run, s.token, ""))
		if err != nil {
			return err
		}
		turns[i] = turn{got.Rate, bare.Rate}
	}
	m := middle(turns)
	row := Row{What: what, Measured: Measure{Rate: m.rate}}.compare("bare handler", Measure{Rate: m.anchor}, m.rate, m.anchor)
	row.Goals = []Goal{atLeast("", row.Ratio, goal, "×")}
	l.add(row)
	return nil
}

func (l *lab) readRate(ctx context.Context, address string, get []byte) (Measure, error) {
	conns, closeAll, err := dialAll(ctx, address, connections)
	if err != nil {
		return Measure{}, err
	}
	defer closeAll()
	if _, err := saturate(ctx, conns, l.a.Anchor/8, get, http.StatusOK); err != nil { // warm
		return Measure{}, err
	}
	return saturate(ctx, conns, l.a.Each/2, get, http.StatusOK)
}

package bench

import (
	"context"
	"time"
)

// What the tests look at from within.
var (
	AtMost   = atMost
	AtLeast  = atLeast
	Latency  = latency
	MountOf  = mountOf
	Request  = request
	Readers  = readers
	Paced    = paced
	Grouped  = groupAppends
	Durables = durableWrites
)

// Conn is a measuring connection.
type Conn = conn

// Dial opens one.
func Dial(ctx context.Context, address string) (*Conn, error) { return dial(ctx, address) }

// Want is an exchange with one good status.
func (c *conn) Want(status int, request []byte) ([]byte, error) { return c.want(status, request) }

// Offer runs an open loop and returns how many requests were answered.
func Offer(ctx context.Context, conns []*Conn, rate float64, d time.Duration, request []byte, status int) (int, error) {
	got, err := offer(ctx, conns, rate, d, request, status)
	return len(got.took), err
}

// Stream follows one event stream until it shows its run as running and so
// many events have come, and returns how many there were and their delays.
func Stream(ctx context.Context, address string, request []byte, events int) (int, []time.Duration, error) {
	s, err := newStreams()
	if err != nil {
		return 0, nil, err
	}
	defer s.close()
	s.timed = true
	if err := s.connect(ctx, address, 1, func(int) []byte { return request }); err != nil {
		return 0, nil, err
	}
	err = s.until(ctx, patience, func() bool { return s.events >= events })
	return s.events, s.took, err
}

// Turn is a rate beside its anchor's.
type Turn = turn

// TurnOf makes one.
func TurnOf(rate, anchor float64) Turn { return turn{rate, anchor} }

// Middle is the turn with the median ratio.
var Middle = middle

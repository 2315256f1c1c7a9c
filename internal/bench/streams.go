package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// streams is many readers of event streams in one thread, which waits for all
// of them at once and reads without allocating, so that what a reader costs is
// small beside what a stream costs the server. It is for one goroutine.
type streams struct {
	poller int
	byFD   []*reader
	open   int
	ready  int // streams that have shown their run as running
	closed int // streams that the other end closed
	events int // published ones, of all streams
	last   time.Time
	buffer []byte
	found  []unix.EpollEvent

	timed bool // parse the moment of every event, not only count
	took  []time.Duration
}

type reader struct {
	ready bool
	carry []byte // the beginning of a moment whose end is to come
}

// mark stands before the moment in each published event, and nowhere else.
const (
	mark        = '~'
	momentBytes = 19
)

var running = []byte(`"running"`)

func newStreams() (*streams, error) {
	poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("read streams: %w", err)
	}
	return &streams{poller: poller, buffer: make([]byte, 256<<10), found: make([]unix.EpollEvent, 1024)}, nil
}

func (s *streams) close() {
	for fd, r := range s.byFD {
		if r != nil {
			_ = unix.Close(fd)
		}
	}
	_ = unix.Close(s.poller)
}

// connect opens n streams and waits until each shows its run as running.
func (s *streams) connect(ctx context.Context, address string, n int, request func(i int) []byte) error {
	at, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}
	for i := range n {
		if err := s.add(to, request(i)); err != nil {
			return fmt.Errorf("open stream %d: %w", i, err)
		}
		if i%64 == 0 {
			if err := s.poll(0); err != nil {
				return err
			}
		}
	}
	if err := s.until(ctx, time.Minute, func() bool { return s.ready == s.open }); err != nil {
		return fmt.Errorf("%d of %d streams are ready: %w", s.ready, s.open, err)
	}
	return nil
}

func (s *streams) add(to unix.Sockaddr, request []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := s.adopt(fd, to, request); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	for len(s.byFD) <= fd {
		s.byFD = append(s.byFD, nil)
	}
	s.byFD[fd] = &reader{}
	s.open++
	return nil
}

func (s *streams) adopt(fd int, to unix.Sockaddr, request []byte) error {
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	if n, err := unix.Write(fd, request); err != nil || n < len(request) {
		return errors.Join(err, errors.New("request cut short"))
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return unix.EpollCtl(s.poller, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// until reads until the condition holds.
func (s *streams) until(ctx context.Context, limit time.Duration, holds func() bool) error {
	for deadline := time.Now().Add(limit); !holds(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.closed > 0 {
			return fmt.Errorf("%d streams were closed by the server", s.closed)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing more came within %s", limit)
		}
		if err := s.poll(20); err != nil {
			return err
		}
	}
	return nil
}

// poll reads what is there, waiting up to so many milliseconds for it.
func (s *streams) poll(ms int) error {
	n, err := unix.EpollWait(s.poller, s.found, ms)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for streams: %w", err)
	}
	for i := range s.found[:n] {
		fd := int(s.found[i].Fd)
		got, err := unix.Read(fd, s.buffer)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		case got <= 0:
			_ = unix.Close(fd)
			s.byFD[fd] = nil
			s.closed++
		default:
			s.take(s.byFD[fd], s.buffer[:got])
		}
	}
	return nil
}

// take counts the events in what came.
func (s *streams) take(r *reader, b []byte) {
	if !r.ready && bytes.Contains(b, running) {
		r.ready = true
		s.ready++
	}
	n := bytes.Count(b, []byte{mark})
	if n > 0 {
		s.events += n
		s.last = time.Now()
	}
	if s.timed && (n > 0 || len(r.carry) > 0) {
		s.time(r, b)
	}
}

// time takes down how long each event was on its way.
func (s *streams) time(r *reader, b []byte) {
	if len(r.carry) > 0 {
		b = append(r.carry, b...)
		r.carry = nil
	}
	now := time.Now().UnixNano()
	for {
		i := bytes.IndexByte(b, mark)
		if i < 0 {
			return
		}
		if b = b[i+1:]; len(b) < momentBytes {
			r.carry = append([]byte{mark}, b...)
			return
		}
		if made, err := strconv.ParseInt(string(b[:momentBytes]), 10, 64); err == nil {
			s.took = append(s.took, time.Duration(now-made))
		}
	}
}

// delivery is what became of published events.
type delivery struct {
	events  int
	elapsed time.Duration // from the order to the last event
	took    Sample        // when timed
}

func (d delivery) rate() float64 { return perSecond(d.events, d.elapsed) }

// follow gives the host an order and reads until every event of it has come.
// copies is how many streams an event goes to.
func (s *streams) follow(ctx context.Context, host *child, o order, copies int) (delivery, error) {
	s.events, s.took = 0, nil
	type reply struct {
		done
		err error
	}
	replies := make(chan reply, 1)
	go func() {
		var r reply
		r.err = host.ask(ctx, o, &r.done)
		replies <- r
	}()
	var answer *reply
	err := s.until(ctx, o.For+patience, func() bool {
		select {
		case r := <-replies:
			answer = &r
		default:
		}
		return answer != nil && (answer.err != nil || answer.Error != "" || s.events >= answer.Events*copies)
	})
	if answer == nil {
		host.kill() // else the question would stay open
		answer = &reply{err: (<-replies).err}
	}
	switch {
	case err != nil && answer.err == nil:
		return delivery{}, fmt.Errorf("%d of %d events came: %w", s.events, answer.Events*copies, err)
	case answer.err != nil:
		return delivery{}, errors.Join(err, answer.err)
	case answer.Error != "":
		return delivery{}, fmt.Errorf("publish: %s", answer.Error)
	}
	return delivery{s.events, s.last.Sub(time.Unix(0, answer.Began)), SampleOf(s.took)}, nil
}

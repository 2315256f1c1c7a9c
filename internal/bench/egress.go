package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/egress"
	egresslog "github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/sandbox"
)

// Where this program is inside a sandbox.
const (
	guestDir     = "/bench"
	guestProgram = "stint"
)

// The kinds of hosts that are clients: they measure a server from where they
// are.
const (
	hostDial  = "dial"  // connect, exchange a line, close: ADDRESS N
	hostFetch = "fetch" // read: ADDRESS BYTES
)

// reached is what a client measured.
type reached struct {
	Took  []time.Duration `json:"took,omitempty"` // of each connection
	Bytes int64           `json:"bytes,omitempty"`
	For   time.Duration   `json:"for,omitempty"`
}

// client measures the server at an address, and prints what it found.
func client(args []string, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("say which server, and how much")
	}
	n, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("how much: %w", err)
	}
	measure := fetch
	if args[0] == hostDial {
		measure = dialEach
	}
	r, err := measure(args[1], n)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

func dialEach(address string, n int64) (r reached, err error) {
	for range n {
		start := time.Now()
		if err := exchange(address); err != nil {
			return r, err
		}
		r.Took = append(r.Took, time.Since(start))
	}
	return r, nil
}

// exchange sends a line, and reads it back.
func exchange(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	b := []byte("e\n")
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err = io.ReadFull(c, b)
	return err
}

func fetch(address string, n int64) (r reached, err error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return r, err
	}
	defer c.Close()
	if _, err := c.Write([]byte("f\n")); err != nil {
		return r, err
	}
	start := time.Now()
	r.Bytes, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(c, n), make([]byte, 256<<10))
	r.For = time.Since(start)
	return r, err
}

// pourer answers the line e with itself, and f with bytes until the reader leaves.
func pourer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b := make([]byte, 256<<10)
			if _, err := io.ReadFull(c, b[:2]); err != nil {
				return
			}
			if b[0] == 'e' {
				_, _ = c.Write(b[:2])
				_, _ = c.Read(b) // until the client has closed: its side closes first
				return
			}
			for err = nil; err == nil; {
				_, err = c.Write(b)
			}
		}()
	}
}

// sandboxEgress measures what the way through the gate adds to connections, and
// how much passes it, beside the same client outside.
func (l *lab) sandboxEgress(ctx context.Context) error {
	return l.withIsolation(ctx, "namespace", func(i isolation) error {
		if !i.Probe(ctx).Network {
			l.add(Row{What: "egress", Note: "not available here: sandboxes have no network"})
			return nil
		}
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer server.Close()
		go pourer(server) // ends with the listener
		tools, err := l.tools()
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(server.Addr().String())
		open, err := gateTo("host.stint.internal:" + port)
		if err != nil {
			return err
		}
		measure := func(kind, amount string) (direct, through reached, err error) {
			if direct, err = l.outside(ctx, kind, server.Addr().String(), amount); err != nil {
				return direct, through, err
			}
			b, err := i.inside(ctx, tools, open, kind, "host.stint.internal:"+port, amount)
			if err != nil {
				return direct, through, err
			}
			return direct, through, json.Unmarshal(b, &through)
		}
		return l.addEgress(measure)
	})
}

func (l *lab) addEgress(measure func(kind, amount string) (direct, through reached, err error)) error {
	direct, through, err := measure(hostDial, strconv.Itoa(max(l.a.Samples, 20)))
	if err != nil {
		return err
	}
	d, t := latency(SampleOf(direct.Took)), latency(SampleOf(through.Took))
	row := Row{What: "a connection from a sandbox, one line and back", Measured: t, Goals: []Goal{atMost("added p50", max(t.P50Ms-d.P50Ms, 1e-6), 1, "ms")}}
	l.add(row.compare("the same client outside", d, t.P50Ms, d.P50Ms))
	if direct, through, err = measure(hostFetch, strconv.FormatInt(int64(l.a.Each)*2/3, 10)); err != nil { // 2.7 GB in a full run
		return err
	}
	rate := func(r reached) float64 { return perSecond(int(r.Bytes>>10), r.For) / 1e3 * 1.024 }
	m, o := Measure{Value: rate(through), Unit: "MB/s"}, Measure{Value: rate(direct), Unit: "MB/s"}
	row = Row{What: "bytes through one connection from a sandbox", Measured: m, Goals: []Goal{atLeast("", m.Value, 500, "MB/s")}}
	l.add(row.compare("the same client outside", o, m.Value, o.Value))
	return nil
}

// gateTo opens the way out to one address.
func gateTo(rule string) (func(*sandbox.Network) (func(), error), error) {
	allowed, err := policy.ParseRule(rule)
	if err != nil {
		return nil, err
	}
	gate, err := egress.New(egress.Config{Now: time.Now})
	if err != nil {
		return nil, err
	}
	return func(n *sandbox.Network) (func(), error) {
		s, err := gate.Open(egress.RunConfig{Mode: "restricted", Allow: []policy.Rule{allowed}, Record: func(egresslog.Entry) {}})
		if err != nil {
			return nil, err
		}
		s.Serve(n)
		return s.Close, nil
	}, nil
}

// tools is a folder with this program, for sandboxes to show.
func (l *lab) tools() (string, error) {
	dir, err := l.folder()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, guestProgram)
	from, err := os.Open(l.o.Command[0])
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755) //nolint:gosec // the sandbox runs it
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return dir, errors.Join(err, to.Close(), os.Chmod(dir, 0o755)) //nolint:gosec // the sandbox's user reads it
}

// outside runs a client on this machine, in a process of its own as inside.
func (l *lab) outside(ctx context.Context, args ...string) (r reached, err error) {
	b, err := exec.CommandContext(ctx, l.o.Command[0], slices.Concat(l.o.Command[1:], []string{"bench", "host"}, args)...).Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

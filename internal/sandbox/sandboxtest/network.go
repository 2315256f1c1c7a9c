package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stint-dev/stint/internal/sandbox"
)

// networkCases test which connections and datagrams leave a sandbox, and where they
// arrive.
var networkCases = map[string]func(*world){
	"every connection is captured":       connectionsCaptured,
	"the host's addresses are captured":  hostAddressesCaptured,
	"DNS names are captured":             namesCaptured,
	"datagrams to port 53 are captured":  datagramsCaptured,
	"other traffic is refused":           otherTrafficRefused,
	"loopback is private":                loopbackPrivate,
	"other sandboxes are unreachable":    otherSandboxUnreachable,
	"the network cannot be changed":      networkUnchangeable,
	"many connections at once":           manyConnections,
	"large transfers in both directions": largeTransfers,
	"the network closes":                 networkEnds,
	"no network requested":               func(w *world) { noNetworkRequested(w) },
}

// trafficServer serves a sandbox's network and records the destinations of connections
// (targets) and the texts that answerTo returns for datagrams (asked). It answers each
// connection with the received text and the destination, and each datagram as answerTo
// describes.
type trafficServer struct {
	net     *sandbox.Network
	mu      sync.Mutex // guards the fields below
	targets []string
	asked   []string
}

// serveNetwork prepares a sandbox with a network, and serves that network until the
// test case ends.
func (w *world) serveNetwork(s sandbox.Spec) (sandbox.Sandbox, *trafficServer) {
	w.Helper()
	s.Network = true
	b := w.prepare(s)
	n := b.Network()
	if n == nil {
		w.Fatal("the sandbox has no network")
	}
	f := &trafficServer{net: n}
	var work sync.WaitGroup
	work.Go(func() { f.accept(&work) })
	work.Go(f.answer)
	w.Cleanup(work.Wait)
	w.Cleanup(func() {
		_ = n.TCP.Close() // returns an error if the sandbox has already closed the listener
		_ = n.DNS.Close()
	})
	return b, f
}

func (f *trafficServer) accept(work *sync.WaitGroup) {
	for {
		c, target, err := f.net.TCP.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.targets = append(f.targets, target.String())
		f.mu.Unlock()
		work.Go(func() {
			defer c.Close()
			said, err := io.ReadAll(c)
			if err == nil {
				fmt.Fprintf(c, "%s to %s", said, target)
			}
		})
	}
}

func (f *trafficServer) answer() {
	b := make([]byte, 1500)
	for {
		n, from, err := f.net.DNS.ReadFrom(b)
		if err != nil {
			return
		}
		answer, asked := answerTo(b[:n])
		f.mu.Lock()
		f.asked = append(f.asked, asked)
		f.mu.Unlock()
		if _, err := f.net.DNS.WriteTo(answer, from); err != nil {
			return
		}
	}
}

// answerTo returns the answer to a datagram and the text to record. If the datagram is a
// DNS question, asked is the name; the answer contains the address 198.18.0.7 for type A
// and no address for other types. For any other datagram, both results are its content.
func answerTo(b []byte) (answer []byte, asked string) {
	var m dnsmessage.Message
	if m.Unpack(b) != nil || len(m.Questions) != 1 {
		return b, string(b)
	}
	q := m.Questions[0]
	m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeSuccess, nil
	if q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: [4]byte{198, 18, 0, 7}},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return b, err.Error()
	}
	return packed, q.Name.String()
}

func (f *trafficServer) seen() (targets, asked []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.targets), slices.Clone(f.asked)
}

// checkDial runs a program that connects to each address, and checks the program's
// output and the connections that arrive.
func (w *world) checkDial(s sandbox.Spec, addresses ...string) {
	w.Helper()
	b, f := w.serveNetwork(s)
	r := w.start(b, command(append([]string{"dial"}, addresses...)...))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	var said strings.Builder
	var want []string
	for _, a := range addresses {
		to := netip.MustParseAddrPort(a)
		to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
		want = append(want, to.String())
		fmt.Fprintf(&said, "hello %s to %s\n", a, to)
	}
	w.want("output of the program", said.String(), r.stdout.String())
	targets, asked := f.seen()
	w.want("connections", strings.Join(want, "\n"), strings.Join(targets, "\n"))
	w.want("datagrams", "", strings.Join(asked, "\n"))
}

func connectionsCaptured(w *world) {
	w.checkDial(w.spec(),
		"1.1.1.1:443", "1.1.1.1:1", "93.184.216.34:65535", "169.254.169.254:80", "169.254.170.2:80", "100.100.100.200:80",
		"10.0.0.1:22", "172.17.0.1:2375", "192.168.1.1:8700", "100.64.0.1:53", "192.0.2.53:53", "198.18.0.7:80", "126.255.255.255:9", "128.0.0.1:9",
		"[::ffff:8.8.8.8]:853", "[::ffff:169.254.169.254]:80")
}

// hostAddressesCaptured listens on the host's addresses and checks that a sandbox's
// connections to these addresses are also captured.
func hostAddressesCaptured(w *world) {
	addresses := []string{"1.1.1.1:443"} // the host may have no IPv4 address of its own
	for _, a := range hostAddresses(w) {
		if netip.MustParseAddr(a).Is6() {
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort(a, "0"))
		if err != nil {
			continue // the address is not available
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	w.checkDial(w.spec(), addresses...)
}

// namesCaptured checks that DNS questions are captured if a program resolves names through
// the system's resolver configuration.
func namesCaptured(w *world) {
	b, f := w.serveNetwork(w.spec())
	r := w.start(b, command("dial", "api.example.test:8443", "other.example.test:80"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("output of the program", "hello api.example.test:8443 to 198.18.0.7:8443\nhello other.example.test:80 to 198.18.0.7:80\n", r.stdout.String())
	_, asked := f.seen()
	slices.Sort(asked)
	w.want("requested names", "api.example.test.\nother.example.test.", strings.Join(slices.Compact(asked), "\n"))
}

func datagramsCaptured(w *world) {
	b, f := w.serveNetwork(w.spec())
	servers := []string{"8.8.8.8:53", "192.168.1.1:53", "169.254.169.253:53", "192.0.2.53:53"}
	r := w.start(b, command(append([]string{"ask"}, servers...)...))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	w.want("answers", strings.Join(servers, "\n")+"\n", r.stdout.String())
	targets, asked := f.seen()
	w.want("datagrams", strings.Join(servers, "\n"), strings.Join(asked, "\n"))
	w.want("connections", "", strings.Join(targets, "\n"))
}

// otherTrafficRefused checks that all traffic except TCP over IPv4 and DNS is refused at
// once. If it were dropped silently, a program that tries QUIC or IPv6 first would wait
// for an answer before it falls back to TCP over IPv4.
func otherTrafficRefused(w *world) {
	b, f := w.serveNetwork(w.spec())
	r := w.start(b, command("refuse",
		"udp 1.1.1.1:443", "udp 8.8.8.8:123", "udp 10.0.0.1:5353", "udp 169.254.169.254:80",
		"tcp [2606:4700:4700::1111]:443", "udp [2606:4700:4700::1111]:443", "udp [2606:4700:4700::1111]:53", "tcp [fe80::1]:80", "tcp [fd00:ec2::254]:80"))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	targets, asked := f.seen()
	w.want("connections and datagrams", "", strings.Join(slices.Concat(targets, asked), "\n"))
}

func loopbackPrivate(w *world) {
	b, f := w.serveNetwork(w.spec())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	defer l.Close()
	r := w.start(b, command("loopback-only", l.Addr().String()))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	targets, asked := f.seen()
	w.want("connections and datagrams", "", strings.Join(slices.Concat(targets, asked), "\n"))
}

// otherSandboxUnreachable listens on all addresses in one sandbox and checks that
// another sandbox cannot connect to them.
func otherSandboxUnreachable(w *world) {
	first, f1 := w.serveNetwork(w.spec())
	second, f2 := w.serveNetwork(w.spec())
	r1 := w.start(first, command("serve", "0.0.0.0:17777"))
	w.awaitText(r1.stdout, "ready")
	r2 := w.start(second, command("refuse", "tcp 127.0.0.1:17777", "udp 127.0.0.1:17777"))
	w.wantExit(r2, sandbox.Exit{Cause: sandbox.Exited})
	w.kill(r1, 0)
	for _, f := range []*trafficServer{f1, f2} {
		targets, asked := f.seen()
		w.want("connections and datagrams", "", strings.Join(slices.Concat(targets, asked), "\n"))
	}
}

// networkUnchangeable runs a program that tries to change the network's configuration
// and then connects to an address. The connection must still be captured.
func networkUnchangeable(w *world) {
	b, f := w.serveNetwork(w.spec())
	args := []string{"change-network", "1.1.1.1:443"}
	if w.suite.OwnKernel {
		args = append(args, "a socket has a mark", "any address is transparent") // may succeed, because gVisor does not forward these options to the host
	}
	r := w.start(b, command(args...))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	targets, _ := f.seen()
	w.want("connections", "1.1.1.1:443", strings.Join(targets, "\n"))
}

func manyConnections(w *world) {
	b, f := w.serveNetwork(w.spec())
	const n = 200
	r := w.start(b, command("dial-many", "203.0.113.5:443", fmt.Sprint(n)))
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
	if targets, _ := f.seen(); len(targets) != n || len(slices.Compact(targets)) != 1 {
		w.Errorf("%d connections arrived, want %d", len(targets), n)
	}
}

// largeTransfers sends 8 MB in each direction. This is more than the buffers of a
// connection can hold.
func largeTransfers(w *world) {
	s := w.spec()
	s.Network = true
	b := w.prepare(s)
	r := w.start(b, command("echo", "203.0.113.5:443", fmt.Sprint(8<<20)))
	c, target, err := b.Network().TCP.Accept()
	w.must(err)
	w.want("target", "203.0.113.5:443", target.String())
	n, err := io.Copy(c, c)
	if err != nil || n != 8<<20 {
		w.Errorf("%d bytes were copied: %v", n, err)
	}
	w.must(c.Close())
	w.wantExit(r, sandbox.Exit{Cause: sandbox.Exited})
}

func networkEnds(w *world) {
	for _, end := range []func(sandbox.Sandbox) error{
		func(b sandbox.Sandbox) error { return b.Close(w.Context()) },
		func(b sandbox.Sandbox) error { return b.Kill(w.Context(), 0) },
		func(b sandbox.Sandbox) error { return errors.Join(b.Network().TCP.Close(), b.Network().DNS.Close()) },
	} {
		s := w.spec()
		s.Network = true
		b := w.prepare(s)
		n := b.Network()
		failed := make(chan error, 2)
		go func() {
			_, _, err := n.TCP.Accept()
			failed <- err
		}()
		go func() {
			_, _, err := n.DNS.ReadFrom(make([]byte, 1))
			failed <- err
		}()
		w.must(end(b))
		for range 2 {
			if err := <-failed; !errors.Is(err, net.ErrClosed) {
				w.Errorf("after the sandbox's end: %v, want %v", err, net.ErrClosed)
			}
		}
	}
}

func noNetworkRequested(w *world) {
	if n := w.prepare(w.spec()).Network(); n != nil {
		w.Errorf("unexpected network: %v", n)
	}
}

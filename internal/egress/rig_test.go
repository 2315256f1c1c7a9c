package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const waitLimit = time.Minute // for events that are expected immediately

// testInternet is a fake internet with names, and servers at addresses.
type testInternet struct {
	mu      sync.Mutex
	names   map[string][][]string // responses to consecutive lookups; the last one is repeated
	servers map[string]string     // address:port in the fake internet to the real address
	dialed  []string
	asked   []string
}

func newTestInternet() *testInternet {
	return &testInternet{names: map[string][][]string{}, servers: map[string]string{}}
}

// name sets the responses for a name: addresses separated by spaces, "-" for none,
// "!" for a failing lookup.
func (w *testInternet) name(name string, answers ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range answers {
		w.names[name] = append(w.names[name], strings.Fields(a))
	}
}

func (w *testInternet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, host)
	answers := w.names[host]
	if len(answers) == 0 || answers[0][0] == "-" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if answers[0][0] == "!" {
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	}
	var addrs []netip.Addr
	for _, a := range answers[0] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if len(answers) > 1 {
		w.names[host] = answers[1:]
	}
	return addrs, nil
}

func (w *testInternet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, addr)
	to, ok := w.servers[addr]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("dial %s %s: connection refused", network, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (w *testInternet) dials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

func (w *testInternet) lookups() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// serve starts a server that is reachable at addresses. It calls handle for each connection
// and then closes the connection.
func (w *testInternet) serve(t testing.TB, handle func(net.Conn), addrs ...string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	w.at(l.Addr().String(), addrs...)
}

func (w *testInternet) at(listening string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		w.servers[a] = listening
	}
}

// web starts an HTTP server at addresses. It responds with its name and the Host header, or
// with a redirect to the URL in the query parameter to.
func (w *testInternet) web(t testing.TB, name string, addrs ...string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusFound)
			return
		}
		fmt.Fprintf(rw, "%s for %s", name, r.Host)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	w.at(l.Addr().String(), addrs...)
}

// listener accepts the TCP connections of a sandbox. The test opens these connections in
// place of programs in the sandbox.
type listener struct {
	raw    net.Listener
	queue  chan arrival
	closed chan struct{}
	once   sync.Once
}

type arrival struct {
	c      net.Conn
	target netip.AddrPort
}

func (l *listener) Accept() (net.Conn, netip.AddrPort, error) {
	select {
	case a := <-l.queue:
		return a.c, a.target, nil
	case <-l.closed:
		return nil, netip.AddrPort{}, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed); l.raw.Close() })
	return nil
}

// testSandbox is a fake sandbox with an uplink that serves its network.
type testSandbox struct {
	t      testing.TB
	uplink *egress.Uplink
	tcp    *listener
	dns    net.PacketConn

	mu      sync.Mutex
	entries []log.Entry
	news    chan struct{}
	pairing sync.Mutex
}

type options struct {
	mode    policy.Mode
	allow   []string
	config  func(*egress.Config)
	run     func(*egress.RunConfig)
	blocked chan struct{} // if set, Record waits until it is closed
}

func (w *testInternet) open(t testing.TB, o options) *testSandbox {
	t.Helper()
	c := egress.Config{Resolver: w, Dialer: w.dial, Addresses: func() ([]net.Addr, error) { return nil, nil }}
	if o.config != nil {
		o.config(&c)
	}
	g, err := egress.New(c)
	if err != nil {
		t.Fatal(err)
	}
	b := &testSandbox{t: t, news: make(chan struct{}, 1)}
	r := egress.RunConfig{Mode: o.mode, Allow: rules(t, o.allow...), Record: func(e log.Entry) {
		if o.blocked != nil {
			<-o.blocked
		}
		b.mu.Lock()
		b.entries = append(b.entries, e)
		b.mu.Unlock()
		select {
		case b.news <- struct{}{}:
		default:
		}
	}}
	if o.run != nil {
		o.run(&r)
	}
	if b.uplink, err = g.Open(r); err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.tcp = &listener{raw: raw, queue: make(chan arrival), closed: make(chan struct{})}
	if b.dns, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	b.uplink.Serve(&sandbox.Network{TCP: b.tcp, DNS: b.dns})
	t.Cleanup(b.uplink.Close)
	return b
}

func rules(t testing.TB, entries ...string) (all []policy.Rule) {
	t.Helper()
	for _, e := range entries {
		r, err := policy.ParseRule(e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// connect opens a connection from the sandbox to the address target.
func (b *testSandbox) connect(target string) net.Conn {
	b.t.Helper()
	return b.connectBy(b.pair, target)
}

// connectSending is like connect, for a program that sends bytes immediately.
func (b *testSandbox) connectSending(target string) net.Conn {
	b.t.Helper()
	return b.connectBy(b.prompt, target)
}

func (b *testSandbox) connectBy(way func(netip.AddrPort) (net.Conn, error), target string) net.Conn {
	b.t.Helper()
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := way(to)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(waitLimit))
	return c
}

func (b *testSandbox) pair(to netip.AddrPort) (net.Conn, error) {
	c, far, err := b.ends()
	if err != nil {
		return nil, err
	}
	if !b.tcp.hand(arrival{far, to}) {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// ends returns the two ends of a new connection: the program's and the uplink's.
func (b *testSandbox) ends() (near, far net.Conn, err error) {
	b.pairing.Lock()
	defer b.pairing.Unlock()
	if near, err = net.Dial("tcp", b.tcp.raw.Addr().String()); err != nil {
		return nil, nil, err
	}
	if far, err = b.tcp.raw.Accept(); err != nil {
		near.Close()
	}
	return near, far, err
}

// hand passes a connection to the uplink. If the listener is closed, it closes the
// connection and returns false.
func (l *listener) hand(a arrival) bool {
	select {
	case l.queue <- a:
		return true
	case <-l.closed:
		a.c.Close()
		return false
	}
}

// prompt is a connection of a program that sends bytes immediately. The uplink waits only a
// short time for the first bytes before it refuses a connection. Therefore, the uplink
// receives the connection only after the first Write, even if the test is slow.
type prompt struct {
	*net.TCPConn
	first sync.Once
	begin func()
	leave func()
}

func (p *prompt) Write(b []byte) (int, error) {
	n, err := p.TCPConn.Write(b)
	p.first.Do(p.begin)
	return n, err
}

func (p *prompt) Close() error {
	p.first.Do(p.leave)
	return p.TCPConn.Close()
}

func (b *testSandbox) prompt(to netip.AddrPort) (net.Conn, error) {
	c, far, err := b.ends()
	if err != nil {
		return nil, err
	}
	return &prompt{TCPConn: c.(*net.TCPConn), begin: func() { b.tcp.hand(arrival{far, to}) }, leave: func() { far.Close() }}, nil
}

// resolver returns a resolver that uses the DNS server of the sandbox.
func (b *testSandbox) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", b.dns.LocalAddr().String())
	}}
}

// lookup returns the address that the DNS server of the sandbox returns for a name.
func (b *testSandbox) lookup(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	addrs, err := b.resolver().LookupNetIP(ctx, "ip4", name+".")
	if err != nil {
		return "", err
	}
	return addrs[0].Unmap().String(), nil
}

// dial looks up a name in the sandbox and connects to its address.
func (b *testSandbox) dial(name string, port int) net.Conn {
	b.t.Helper()
	a, err := b.lookup(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.connect(fmt.Sprintf("%s:%d", a, port))
}

// transport returns an HTTP transport that resolves names and connects in the sandbox.
func (b *testSandbox) transport() *http.Transport {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err != nil {
			if host, err = b.lookup(host); err != nil {
				return nil, err
			}
		}
		to, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
		if err != nil {
			return nil, err
		}
		return b.prompt(to)
	}}
	b.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// get requests a URL from the sandbox and returns the status and body of the response.
func (b *testSandbox) get(url string) (int, string, error) {
	c := &http.Client{Transport: b.transport(), Timeout: waitLimit}
	r, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return r.StatusCode, string(body), err
}

// await waits for a log entry that fits accepts, and returns it.
func (b *testSandbox) await(what string, fits func(log.Entry) bool) log.Entry {
	b.t.Helper()
	limit := time.After(waitLimit)
	for {
		b.mu.Lock()
		i := slices.IndexFunc(b.entries, fits)
		if i >= 0 {
			e := b.entries[i]
			b.mu.Unlock()
			return e
		}
		all := fmt.Sprintf("%+v", b.entries)
		b.mu.Unlock()
		select {
		case <-b.news:
		case <-limit:
			b.t.Fatalf("no entry %s in %s", what, all)
		}
	}
}

// denied waits for the log entry of a refusal by rule, and returns it.
func (b *testSandbox) denied(rule string) log.Entry {
	b.t.Helper()
	return b.await("that "+rule+" denies", func(e log.Entry) bool { return e.Action == log.Deny && e.Rule == rule })
}

func (b *testSandbox) all() []log.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.entries)
}

// isReset checks that the connection is reset without a response.
func isReset(t testing.TB, c net.Conn) {
	t.Helper()
	got, err := io.ReadAll(c)
	if len(got) > 0 {
		t.Errorf("a refused connection returns %q", got)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a refused connection ends with %v, want a reset", err)
	}
}

// echo returns the bytes that it receives, and then "bye".
func echo(c net.Conn) {
	_, _ = io.Copy(c, bufio.NewReader(c))
	_, _ = c.Write([]byte("bye"))
}

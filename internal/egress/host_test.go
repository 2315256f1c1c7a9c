package egress_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
)

// interfaces contains the addresses of the worker's network interfaces. Tests change them
// with the method set.
type interfaces struct {
	mu    sync.Mutex
	addrs []string
	err   error
}

func (i *interfaces) set(err error, addrs ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.addrs, i.err = addrs, err
}

func (i *interfaces) read() (all []net.Addr, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, a := range i.addrs {
		ip, n, err := net.ParseCIDR(a)
		if err != nil {
			return nil, err
		}
		all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	return all, i.err
}

// Connections to an address of the worker are refused, unless a rule names exactly this
// address and port.
func TestWorkerAddresses(t *testing.T) {
	t.Parallel()
	const message = "worker's address"
	for _, c := range []struct {
		mode    policy.Mode
		allow   string
		target  string
		reaches bool
		rule    string
	}{
		{policy.Public, "", site + ":7", false, message},
		{policy.Public, "", "93.184.216.35:7", true, "public"}, // another host in the worker's network
		{policy.Public, "", "[2606:2800:220:1::1]:7", false, message},
		{policy.Public, "", "[2002:5db8:d822::]:7", false, message},
		{policy.Public, "", "me.example=" + site + ":7", false, message},
		{policy.Restricted, "me.example", "me.example=" + site + ":7", false, message},
		{policy.Restricted, "me.example " + site + ":7", "me.example=" + site + ":7", true, "allow " + site + ":7"},
		{policy.Public, site, site + ":7", false, message},
		{policy.Public, site + ":8", site + ":7", false, message},
		{policy.Public, "93.184.216.0/24:7", site + ":7", false, message},
		{policy.Public, site + ":7", site + ":7", true, "allow " + site + ":7"},
		{policy.Public, "10.0.0.0/8", "10.1.2.3:7", false, message},
		{policy.Public, "10.1.2.3:7", "10.1.2.3:7", true, "allow 10.1.2.3:7"},
		{policy.Public, "10.0.0.0/8", "10.1.2.4:7", true, "allow 10.0.0.0/8"},
		{policy.Public, "127.0.0.1:7", "127.0.0.1:7", true, "allow 127.0.0.1:7"},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.mode, c.allow, c.target), func(t *testing.T) {
			t.Parallel()
			w, mine := newTestInternet(), &interfaces{addrs: []string{"127.0.0.1/8", site + "/24", "10.1.2.3/8", "2606:2800:220:1::1/64"}}
			w.serve(t, echo, site+":7", "93.184.216.35:7", "[2606:2800:220:1::1]:7", "10.1.2.3:7", "10.1.2.4:7", "127.0.0.1:7")
			open := func(off bool) *testSandbox {
				return w.open(t, options{mode: c.mode, allow: strings.Fields(c.allow), config: func(c *egress.Config) { c.Addresses, c.DenyHost = mine.read, off }})
			}
			target := c.target
			name, rest, named := strings.Cut(c.target, "=")
			if named {
				target = rest
				w.name(name, strings.TrimSuffix(rest, ":7"))
			}
			reach := func(b *testSandbox) string {
				at := target
				if named {
					addr, err := b.lookup(name)
					if err != nil {
						return ""
					}
					at = addr + ":7"
				}
				conn := b.connect(at)
				_, _ = conn.Write([]byte{0, 'x'})
				_ = conn.(*net.TCPConn).CloseWrite()
				buf := make([]byte, 5)
				n, _ := conn.Read(buf[:2])
				return string(buf[:n])
			}
			b := open(false)
			if got := reach(b); (got != "") != c.reaches {
				t.Fatalf("it reads %q", got)
			}
			if !c.reaches {
				b.denied(c.rule)
				if dials := w.dials(); len(dials) > 0 {
					t.Errorf("dialed %v", dials)
				}
				return
			}
			b.await("by its rule", func(e log.Entry) bool { return e.Action == log.Allow && e.Rule == c.rule })
			if c.rule == "public" || strings.HasSuffix(c.rule, "/8") {
				return
			}
			if got := reach(open(true)); got != "" {
				t.Errorf("where the host is off it reads %q", got)
			}
		})
	}
}

func TestWorkerAddressesChange(t *testing.T) {
	t.Parallel()
	w, mine, now := newTestInternet(), &interfaces{}, newClock()
	w.web(t, "site", site+":80")
	b := w.open(t, options{config: func(c *egress.Config) { c.Addresses, c.Now = mine.read, now.Now }})
	get := func() (status int) {
		status, _, err := b.get("http://" + site + "/")
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	statuses := []int{get()}
	mine.set(nil, site+"/32")
	now.advance(31)
	statuses = append(statuses, get())
	mine.set(errors.New("no room"))
	now.advance(31)
	statuses = append(statuses, get()) // if the addresses cannot be read, the last known ones remain in effect
	mine.set(nil)
	now.advance(31)
	statuses = append(statuses, get())
	if diff := cmp.Diff([]int{200, 403, 403, 200}, statuses); diff != "" {
		t.Error(diff)
	}
}

package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/llmproxy"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/egress/proxy"
)

// openInternal configures the names that are served in this process: the names of the
// API and of the model proxy, if the run has them.
func (u *Uplink) openInternal() error {
	u.policy.Internal = map[string]string{}
	c := u.gateway.config
	if u.config.APIToken != "" && c.API != nil {
		u.api = llmproxy.API{Handler: c.API, Token: u.config.APIToken}
		u.policy.Internal[stint.APIAlias] = llmproxy.RuleAPI
	}
	m := u.config.Model
	if m == nil {
		return nil
	}
	var err error
	u.model, err = llmproxy.New(llmproxy.Config{
		Type: m.Type, BaseURL: m.BaseURL, Key: m.Key, KeyName: m.KeyName, Count: m.Count, Heard: m.Heard,
		Dial: u.dialProvider, Roots: c.Roots, Idle: c.IdleTimeout, Now: c.Now,
	})
	if err != nil {
		return fmt.Errorf("egress: opening the model proxy: %w", err)
	}
	u.policy.Internal[stint.ModelAlias] = llmproxy.RuleProvider
	return nil
}

// hasProxy reports whether the explicit proxy is available. If no host can be reached,
// it is not available.
func (u *Uplink) hasProxy() bool { return u.policy.Mode != policy.None || len(u.policy.Internal) > 0 }

// serveInternal serves a connection to a name that is served in this process.
func (c *connection) serveInternal(ctx context.Context) {
	u := c.uplink
	c.updateLog(func(e *log.Entry) { e.Protocol, e.Rule = "http/1.1", u.policy.Internal[c.dest.Name] })
	h := c.proxyHandler()
	h.Host, h.Port, h.Local = c.dest.Host(), c.dest.Port, u.localHandler
	h.Dial = func(context.Context, string, uint16) (net.Conn, string, error) {
		return nil, "", *policy.Refuse("host mismatch", "This connection is for %s only. Open another for other hosts.", c.dest.Name)
	}
	c.finishForward(h.Serve(ctx, c))
}

// localHandler returns the handler of a request that is served in this process. For
// other requests it returns nil.
func (u *Uplink) localHandler(r *http.Request, x *proxy.Exchange) proxy.LocalHandler {
	d, refused := u.requested(x.Host, x.Port)
	switch {
	case refused != nil || d.Port != policy.InternalPort || !u.policy.IsInternal(d.Name):
		return nil
	case d.Name == stint.ModelAlias:
		return u.model.Handler(r, x)
	}
	return u.api.HandlerFor(r, x)
}

// dialProvider connects to the model's provider. The provider's name is allowed in every
// mode, because it is in the definition. Its addresses are checked like others.
func (u *Uplink) dialProvider(ctx context.Context, host string, port uint16) (net.Conn, string, error) {
	d, refused := u.provider(host, port)
	if refused != nil {
		return nil, "", *refused
	}
	r, err := u.dialAllowed(ctx, d, llmproxy.RuleProvider)
	if err != nil {
		return nil, "", err
	}
	return r.conn, r.rule, nil
}

// provider returns the destination for the host of the provider's URL, or a refusal. If
// the host is a name, its addresses are not checked here but in dialAllowed.
func (u *Uplink) provider(host string, port uint16) (policy.Destination, *policy.Refusal) {
	d, err := policy.ParseDestination(host, port)
	switch {
	case err != nil:
		return d, policy.Refuse("no host name", "'%.64s' is not a host name. Correct provider.baseUrl.", host)
	case d.Name == "":
		_, refused := u.policy.DecideAddr(d.Addr, port, policy.Destination{Name: d.Addr.String(), Port: port})
		return d, refused
	case d.Name == stint.HostAlias:
		_, refused := u.policy.DecideWorker(port)
		return d, refused
	case policy.IsReserved(d.Name):
		return d, policy.Refuse("unknown name", "%s does not exist in this sandbox. For the worker's loopback, write %s:%d in provider.baseUrl and in network.allow.", d.Name, stint.HostAlias, port)
	}
	return d, nil
}

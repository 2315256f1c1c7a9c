package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/store"
)

const (
	// recently is the time for which a definition may request what a worker offered
	// when it was last seen.
	recently = 24 * time.Hour
	// describeEvery is the interval at which this server records what its worker offers.
	describeEvery = 10 * time.Minute
)

// hostStore is the part of store.Store that offers needs.
type hostStore interface {
	DescribeHost(ctx context.Context, h store.Host) error
	Hosts(ctx context.Context) ([]store.Host, error)
}

// offers determines which definitions the workers of this installation can run.
type offers struct {
	store      hostStore
	host       string            // of this server's worker
	labels     map[string]string // of this server's worker
	isolators  *isolators
	images     *images
	frameworks func(context.Context) []stint.Framework // those of this server's worker

	mu    sync.Mutex // guards known
	known *store.Host
}

// describe determines what this server's worker offers, and records it for all servers of
// the database.
func (o *offers) describe(ctx context.Context) error {
	h := o.inspect(ctx)
	if err := o.store.DescribeHost(ctx, h); err != nil {
		return fmt.Errorf("record what the worker offers: %w", err)
	}
	return nil
}

// inspect determines what this server's worker offers.
func (o *offers) inspect(ctx context.Context) store.Host {
	h := store.Host{Name: o.host, Labels: o.labels, Isolations: o.isolators.working(ctx)}
	for _, f := range o.frameworks(ctx) {
		if f.Available {
			h.Frameworks = append(h.Frameworks, f.Name)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = &h
	return h
}

// has reports whether a worker that was seen recently offers something. It first asks
// what is known, and then inspects this server's worker again, because the operator may
// have installed it just now.
func (o *offers) has(ctx context.Context, offered func(store.Host) bool) (bool, error) {
	o.mu.Lock()
	known := o.known
	o.mu.Unlock()
	if known != nil && offered(*known) {
		return true, nil
	}
	ok, err := o.othersHave(ctx, offered)
	return ok || err == nil && offered(o.inspect(ctx)), err
}

// othersHave reports whether the worker of another server, seen recently, offers something.
func (o *offers) othersHave(ctx context.Context, offered func(store.Host) bool) (bool, error) {
	hosts, err := o.store.Hosts(ctx)
	if err != nil {
		return false, fmt.Errorf("read what the workers offer: %w", err)
	}
	return slices.ContainsFunc(hosts, func(h store.Host) bool {
		return h.Name != o.host && h.Unseen <= recently && offered(h)
	}), nil
}

// check reports the settings of a definition that no worker can serve.
func (o *offers) check(ctx context.Context, d *stint.Definition) (agents.Offer, error) {
	var offer agents.Offer
	for _, err := range []error{o.isolators.allows(d.Sandbox), o.images.allows(d.Image)} {
		if err := offer.Add(err); err != nil {
			return agents.Offer{}, err
		}
	}
	for _, check := range []func(context.Context, *stint.Definition) error{o.checkSandbox, o.checkFramework} {
		if err := offer.Add(check(ctx, d)); err != nil {
			return agents.Offer{}, err
		}
	}
	warnings, err := o.checkPlacement(ctx, d)
	offer.Warnings = warnings
	return offer, err
}

func (o *offers) checkSandbox(ctx context.Context, d *stint.Definition) error {
	if d.Sandbox == "" || d.Sandbox == "default" || o.isolators.allows(d.Sandbox) != nil {
		return nil
	}
	ok, err := o.has(ctx, func(h store.Host) bool { return slices.Contains(h.Isolations, d.Sandbox) })
	if ok || err != nil {
		return err
	}
	return stint.InvalidParam("sandbox", "The sandbox '%s' does not work on this server or on any worker of the last 24 hours. Use 'default', or ask the operator to run 'stint doctor', which shows the reason.", d.Sandbox)
}

func (o *offers) checkFramework(ctx context.Context, d *stint.Definition) error {
	if d.Image != "" && d.Image != "host" || !slices.Contains(catalog.Names(), d.Framework) {
		return nil
	}
	ok, err := o.has(ctx, func(h store.Host) bool { return slices.Contains(h.Frameworks, d.Framework) })
	if ok || err != nil {
		return err
	}
	reason := "It is not installed."
	for _, f := range o.frameworks(ctx) {
		if f.Name == d.Framework && f.Reason != "" {
			reason = f.Reason
		}
	}
	return stint.InvalidParam("framework", "The framework '%s' does not work on this server or on any worker of the last 24 hours. %s", d.Framework, reason)
}

// checkPlacement returns a warning if no worker has the labels that d requires.
func (o *offers) checkPlacement(ctx context.Context, d *stint.Definition) ([]stint.Warning, error) {
	if d.Placement.Fits(o.labels) {
		return nil, nil
	}
	ok, err := o.othersHave(ctx, func(h store.Host) bool { return d.Placement.Fits(h.Labels) })
	if ok || err != nil {
		return nil, err
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(d.Placement.Labels)) {
		labels = append(labels, key+"="+d.Placement.Labels[key])
	}
	return []stint.Warning{{Param: "placement.labels", Message: fmt.Sprintf(
		"No worker of the last 24 hours has the labels %s. Runs of this agent wait until one has them: change 'placement.labels', or ask the operator to start a server with --labels.", strings.Join(labels, ", "))}}, nil
}

package worker

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/framework/catalog"
	"github.com/stint-dev/stint/internal/sandbox"
)

// bundleName is the file below sandbox.RunDir with the certificates that
// programs inside trust.
const bundleName = "ca.pem"

// networked reports whether a driver's sandboxes get a network whose far end is
// ours.
func (e *Worker) networked(ctx context.Context, d sandbox.Driver) bool {
	if e.c.Gate == nil {
		return false
	}
	return e.report(ctx, d).Network
}

// report tells what a driver can do here; it is asked once.
func (e *Worker) report(ctx context.Context, d sandbox.Driver) sandbox.Report {
	known, ok := e.reports.Load(d.Name())
	if !ok {
		known, _ = e.reports.LoadOrStore(d.Name(), d.Probe(ctx))
	}
	return known.(sandbox.Report)
}

// connect opens the way out of the sandbox, as far as the definition allows.
// It closes with the job, or before by disconnect.
func (j *job) connect() error {
	d := &j.a.Plan.Definition
	network := j.sandbox.Network()
	if network == nil {
		if mode := d.NetworkMode(); mode != "none" {
			j.record.system("warn", fmt.Sprintf("The agent asks for the network mode '%s', but sandboxes of this server have no network.", mode), nil)
		}
		return nil
	}
	run := egress.RunConfig{Mode: policy.Mode(d.NetworkMode()), Secrets: append(j.brokered(), j.headerSecrets()...), Record: j.record.network, Model: j.gateway()}
	if d.Network != nil {
		run.Inspect = d.Network.Inspect
		for _, text := range d.Network.Allow {
			rule, err := definition.ParseRule(text)
			if err != nil {
				return err
			}
			run.Allow = append(run.Allow, rule)
		}
	}
	if callsBack(d) && j.e.c.RunToken != nil {
		token, err := j.e.c.RunToken(&j.a)
		if err != nil {
			return fmt.Errorf("make a token for the run: %w", err)
		}
		run.APIToken = token
	}
	session, err := j.e.c.Gate.Open(run)
	if err != nil {
		return fmt.Errorf("open the way out: %w", err)
	}
	session.Serve(network)
	j.clean.add(func(context.Context) error { session.Close(); return nil })
	j.disconnect = session.Close
	return nil
}

// inspected reports whether the TLS of some hosts ends at the gate.
func (j *job) inspected() bool {
	d := &j.a.Plan.Definition
	return len(d.Secrets) > 0 || len(j.headerSecrets()) > 0 || d.Network != nil && len(d.Network.Inspect) > 0
}

// trust gives the agent the certificates to believe the gate, and the variables
// by which programs with a store of their own find them.
func (j *job) trust() (map[string]string, error) {
	if !j.inspected() || j.e.c.TrustBundle == "" {
		return nil, nil
	}
	given := filepath.Join(j.place.Run, bundleName)
	if err := os.Link(j.e.c.TrustBundle, given); err != nil {
		return nil, fmt.Errorf("show certificates: %w", err)
	}
	env := map[string]string{}
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE",
		"GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	} {
		env[name] = path.Join(sandbox.RunDir, bundleName)
	}
	return env, nil
}

// placeholder is what the agent sees of a brokered secret.
func placeholder(name string) string { return "stint-brokered-" + name }

// brokered are the secrets whose values the gate puts in.
func (j *job) brokered() []policy.Secret {
	values := j.a.Secrets()
	var out []policy.Secret
	for _, name := range slices.Sorted(maps.Keys(j.a.Plan.Definition.Secrets)) {
		if value, ok := values[name]; ok {
			out = append(out, policy.Secret{Name: name, Placeholder: placeholder(name), Value: value, Hosts: j.a.Plan.Definition.Secrets[name].Hosts})
		}
	}
	return out
}

// visibleSecrets are the secrets as the agent sees them: placeholders for those
// whose values are put in on the way out, for the hosts that they are for alone.
func (j *job) visibleSecrets(secrets map[string]string) map[string]string {
	visible := maps.Clone(secrets)
	for _, name := range putInOutside(&j.a.Plan.Definition) {
		if _, ok := visible[name]; ok {
			visible[name] = placeholder(name)
		}
	}
	return visible
}

// putInOutside names the secrets that no sandbox ever holds: the brokered ones,
// the key of the model, and those in headers of MCP servers.
func putInOutside(d *stint.Definition) []string {
	names := slices.Collect(maps.Keys(d.Secrets))
	if catalog.ModelURL(d) != "" && d.Provider.APIKey != nil {
		names = append(names, d.Provider.APIKey.Secret)
	}
	for _, s := range d.MCPServers {
		for _, header := range s.Headers {
			for _, ref := range definition.References(header) {
				if ref.Source == "secrets" {
					names = append(names, ref.Name)
				}
			}
		}
	}
	return names
}

// network logs what the agent tried to reach.
func (r *recorder) network(e log.Entry) {
	level := "info"
	if e.Action == log.Deny {
		level = "warn"
	}
	r.log(stint.LogEntry{
		Timestamp: stint.TimeOf(e.Time), Type: stint.LogNetwork, Level: level,
		Message: r.masker.Mask(summary(e)), Metadata: r.details(e),
	})
}

// summary is an entry in a line.
func summary(e log.Entry) string {
	if e.Action == log.Suppressed {
		text := fmt.Sprintf("%d entries (%s) were left out of this log", e.Count, e.Rule)
		if e.Error != "" {
			text += ": " + e.Error
		}
		return text
	}
	what := e.URL
	if what == "" {
		what = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		if e.Port == 0 {
			what = e.Host
		}
	}
	words := []string{e.Action, e.Method, what}
	if e.Method == "" {
		words[1] = e.Protocol
	}
	if e.Status != 0 {
		words = append(words, strconv.Itoa(e.Status))
	}
	if e.Action == log.Deny {
		words = append(words, "("+e.Rule+")")
	}
	if e.Error != "" {
		words = append(words, e.Error)
	}
	return strings.Join(words, " ")
}

// details are what is known of an entry.
func (r *recorder) details(e log.Entry) map[string]any {
	m := map[string]any{"action": e.Action}
	if e.Open {
		m["open"] = true
	}
	for name, text := range map[string]string{"method": e.Method, "url": e.URL, "host": e.Host, "rule": e.Rule, "protocol": e.Protocol, "error": e.Error, "serverName": e.ServerName, "address": e.Address} {
		if text != "" {
			m[name] = r.masker.Mask(text)
		}
	}
	for name, n := range map[string]int64{
		"port": int64(e.Port), "status": int64(e.Status), "requestBytes": e.RequestBytes, "responseBytes": e.ResponseBytes, "count": e.Count, "connection": e.Connection,
	} {
		if n != 0 {
			m[name] = n
		}
	}
	if e.Duration > 0 {
		m["durationMs"] = e.Duration.Milliseconds()
	}
	return m
}

package run

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/egress/policy"
	"github.com/stint-dev/stint/internal/sandbox"
)

// bundleName is the file below sandbox.RunDir with the certificates that
// programs in the sandbox trust.
const bundleName = "ca.pem"

// connect connects the sandbox's network to the egress gateway, with the policy of
// the definition. If the sandbox has no network, it only logs a warning, unless the
// network mode is none.
func connect(_ context.Context, s *state) (undo, error) {
	network := s.sandbox.Network()
	if network == nil {
		if mode := s.definition().NetworkMode(); mode != "none" {
			s.output.System("warn", fmt.Sprintf("The agent asks for the network mode '%s', but sandboxes of this server have no network.", mode), nil)
		}
		return nil, nil
	}
	run, err := s.egressRun()
	if err != nil {
		return nil, err
	}
	session, err := s.Gate.Open(run)
	if err != nil {
		return nil, fmt.Errorf("open egress: %w", err)
	}
	session.Serve(network)
	s.disconnect = session.Close
	return func(context.Context) error { session.Close(); return nil }, nil
}

// egressRun returns the run's settings for the egress gateway.
func (s *state) egressRun() (egress.RunConfig, error) {
	d := s.definition()
	run := egress.RunConfig{Mode: policy.Mode(d.NetworkMode()), Secrets: append(s.brokeredSecrets(), s.headerSecrets()...), Record: s.recordNetwork, Model: s.modelProxy()}
	if d.Network != nil {
		run.Inspect = d.Network.Inspect
		for _, text := range d.Network.Allow {
			rule, err := policy.ParseRule(text)
			if err != nil {
				return run, err
			}
			run.Allow = append(run.Allow, rule)
		}
	}
	if usesAPI(d) && s.RunToken != nil {
		token, err := s.RunToken(&s.a)
		if err != nil {
			return run, fmt.Errorf("make a token for the run: %w", err)
		}
		run.APIToken = token
	}
	return run, nil
}

// recordNetwork adds an entry of the network log to the run's log and to the metrics. An
// operation in progress is counted when it ends.
func (s *state) recordNetwork(e log.Entry) {
	switch {
	case e.Action == log.Suppressed:
		s.Metrics.Egress(e.Rule, e.Class(), e.Count, 0, 0)
	case !e.Open:
		s.Metrics.Egress(e.Action, e.Class(), 1, e.RequestBytes, e.ResponseBytes)
	}
	s.output.Network(e)
}

// usesAPI reports whether an MCP server of the definition is the API itself.
func usesAPI(d *stint.Definition) bool {
	for _, m := range d.MCPServers {
		if at, err := url.Parse(m.URL); err == nil && at.Hostname() == stint.APIAlias {
			return true
		}
	}
	return false
}

// isIntercepted reports whether TLS connections to some hosts are intercepted.
func (s *state) isIntercepted() bool {
	d := s.definition()
	return len(s.brokeredSecrets()) > 0 || len(s.headerSecrets()) > 0 || d.Network != nil && len(d.Network.Inspect) > 0
}

// trust adds s.TrustBundle, the file with all trusted certificates, to the run's files. It
// returns the environment variables in which programs with their own certificate store
// expect the path of such a file. If no connections are intercepted, or s.TrustBundle is
// empty, it does nothing.
func (s *state) trust() (map[string]string, error) {
	if !s.isIntercepted() || s.TrustBundle == "" {
		return nil, nil
	}
	if err := os.Link(s.TrustBundle, filepath.Join(s.dirs.Run, bundleName)); err != nil {
		return nil, fmt.Errorf("add certificates: %w", err)
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

package run

import (
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/definition"
	"github.com/stint-dev/stint/internal/sandbox"
)

// defaultPath is the PATH of a sandbox if no other source sets it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the agent's environment, sorted, in the form name=value. If
// several sources define a variable, the last of these has priority: the defaults, the
// image (except HOME and PWD), the agent CLI, the interception CA, the definition, stored
// secrets that the definition names, the run's variables, the run's secrets, the
// framework's plan, and the variables of Stint.
func (s *state) environment(promptPath string) ([]string, error) {
	spec, secrets := s.a.Plan, s.visibleSecrets(s.a.Secrets())
	env := map[string]string{
		"PATH": defaultPath, "LANG": "C.UTF-8", "TERM": "dumb", "TMPDIR": "/tmp", "SHELL": "/bin/bash",
		"HOME": sandbox.HomeDir, "USER": "agent", "LOGNAME": "agent", "PWD": spec.Definition.ArtifactPath(),
	}
	for _, kv := range s.imageEnv {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "HOME" && name != "PWD" {
			env[name] = value
		}
	}
	if len(s.cli.Path) > 0 {
		env["PATH"] = strings.Join(append(slices.Clone(s.cli.Path), env["PATH"]), ":")
	}
	maps.Copy(env, s.cli.Env)
	trust, err := s.trust()
	if err != nil {
		return nil, err
	}
	maps.Copy(env, trust)
	for name, value := range spec.Definition.Environment {
		env[name] = definition.Interpolate(value, spec.Variables, secrets)
	}
	maps.Copy(env, s.visibleSecrets(s.a.Stored))
	maps.Copy(env, spec.Variables)
	maps.Copy(env, s.visibleSecrets(s.a.Given))
	maps.Copy(env, s.plan.Env)
	maps.Copy(env, map[string]string{
		"STINT_RUN_ID": s.a.Run.ID, "STINT_SESSION_ID": s.a.Run.SessionID, "STINT_PROMPT_FILE": promptPath,
	})
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out, nil
}

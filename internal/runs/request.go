package runs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/masking"
)

// Limits of a request.
const (
	maxPrompt    = 512 << 10 // bytes
	maxVariables = 512
	maxValue     = 64 << 10 // bytes of one variable or secret
	maxMetadata  = 16
	maxMetaKey   = 64
	maxMetaValue = 512
	maxPriority  = 9
)

// check tells everything that is wrong with the body of a request, without
// looking anything up.
func check(n *stint.NewRun) error {
	var faults []*stint.Error
	add := func(e *stint.Error) {
		if e != nil {
			faults = append(faults, e)
		}
	}
	if n.Agent == "" && n.AgentID == "" && n.SessionID == "" && n.CheckpointID == "" {
		add(stint.MissingParam("agent", "Name what to run: one of agent, agentId, sessionId or checkpointId is required."))
	}
	switch {
	case n.Prompt == "":
		add(stint.MissingParam("prompt", "'prompt' is required: the task for the agent."))
	case len(n.Prompt) > maxPrompt:
		add(stint.InvalidParam("prompt", "'prompt' may have %d bytes at most. Put larger inputs into a volume.", maxPrompt))
	case strings.ContainsRune(n.Prompt, 0):
		add(stint.InvalidParam("prompt", "'prompt' may not hold a NUL character."))
	}
	faults = append(faults, checkEnvironment("variables", n.Variables)...)
	faults = append(faults, checkEnvironment("secrets", n.Secrets)...)
	if err := masking.CheckLimits("secrets", slices.Collect(maps.Values(n.Secrets))); err != nil {
		return err
	}
	faults = append(faults, checkMetadata(n.Metadata)...)
	if n.Priority < 0 || n.Priority > maxPriority {
		add(stint.InvalidParam("priority", "'priority' must be a whole number from 0 to %d.", maxPriority))
	}
	if n.ArtifactName != "" {
		add(stint.CheckName("artifactName", n.ArtifactName))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Volumes)) {
		add(stint.CheckName("volumes."+name, name))
	}
	if n.Timeout != "" {
		_, e := stint.ParseTimeout("timeout", n.Timeout)
		add(e)
	}
	if n.Limits != nil {
		add(n.Limits.Check("limits"))
	}
	return stint.JoinErrors(faults)
}

func checkEnvironment(param string, values map[string]string) (faults []*stint.Error) {
	if len(values) > maxVariables {
		return []*stint.Error{stint.InvalidParam(param, "'%s' may have %d members at most.", param, maxVariables)}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := param + "." + name
		switch v := values[name]; {
		case stint.CheckVariable(at, name) != nil:
			faults = append(faults, stint.CheckVariable(at, name))
		case len(v) > maxValue:
			faults = append(faults, stint.InvalidParam(at, "'%s' may have %d bytes at most.", at, maxValue))
		case strings.ContainsRune(v, 0):
			faults = append(faults, stint.InvalidParam(at, "'%s' may not hold a NUL character.", at))
		}
	}
	return faults
}

func checkMetadata(values map[string]string) (faults []*stint.Error) {
	if len(values) > maxMetadata {
		return []*stint.Error{stint.InvalidParam("metadata", "'metadata' may have %d members at most.", maxMetadata)}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key == "" || utf8.RuneCountInString(key) > maxMetaKey || utf8.RuneCountInString(values[key]) > maxMetaValue {
			faults = append(faults, stint.InvalidParam("metadata."+key, "A key of 'metadata' has 1 to %d characters, a value %d at most.", maxMetaKey, maxMetaValue))
		}
	}
	return faults
}

// timeoutOf is the run's time limit: the agent's, or a shorter one.
func timeoutOf(n *stint.NewRun, d *stint.Definition) (time.Duration, error) {
	limit := d.RunTimeout()
	if n.Timeout == "" {
		return limit, nil
	}
	asked, e := stint.ParseTimeout("timeout", n.Timeout)
	if e != nil {
		return 0, e
	}
	if asked > limit {
		return 0, stint.InvalidParam("timeout", "'timeout' is %s but the agent allows %s at most. Ask for less or change the agent.", asked, limit)
	}
	return asked, nil
}

// limitsOf are the run's limits: the agent's, or tighter ones.
func limitsOf(n *stint.NewRun, d *stint.Definition) (stint.Limits, error) {
	limits := stint.Limits{}
	if d.Limits != nil {
		limits = *d.Limits
	}
	if limits.OutputBytes == 0 {
		limits.OutputBytes = stint.DefaultOutputBytes
	}
	return limits.Tighten("limits", n.Limits)
}

// contradiction says that two members name different things.
func contradiction(a, b, noun string) error {
	return stint.InvalidParam(a, "%s and %s name different %s. Give one of them, or make them agree.", quote(a), quote(b), noun)
}

func quote(s string) string { return fmt.Sprintf("'%s'", s) }

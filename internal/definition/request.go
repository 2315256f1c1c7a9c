package definition

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/masking"
)

// CheckRequest returns an error that lists the invalid values of a request to create a
// run. If the secrets exceed the limits of package masking, it reports only this. It
// does not check that the agent, session, checkpoint, artifact, volumes, and versions in
// the request exist.
func CheckRequest(n *stint.NewRun) error {
	if err := masking.CheckLimits("secrets", slices.Collect(maps.Values(n.Secrets))); err != nil {
		return err
	}
	var errs errorList
	if n.Agent == "" && n.AgentID == "" && n.SessionID == "" && n.CheckpointID == "" {
		errs.add(stint.MissingParam("agent", "One of 'agent', 'agentId', 'sessionId', or 'checkpointId' is required."))
	}
	switch {
	case n.Prompt == "":
		errs.add(stint.MissingParam("prompt", "'prompt' is required: the task for the agent."))
	case len(n.Prompt) > stint.MaxPromptBytes:
		errs.invalid("prompt", "'prompt' may have %d bytes at most. Put larger inputs into a volume.", stint.MaxPromptBytes)
	case strings.ContainsRune(n.Prompt, 0):
		errs.invalid("prompt", "'prompt' may not contain a NUL character.")
	}
	errs.environment("variables", n.Variables)
	errs.environment("secrets", n.Secrets)
	errs.metadata(n.Metadata)
	if n.Priority < 0 || n.Priority > stint.MaxPriority {
		errs.invalid("priority", "'priority' must be a whole number from 0 to %d.", stint.MaxPriority)
	}
	if n.ArtifactName != "" {
		errs.add(stint.CheckName("artifactName", n.ArtifactName))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Volumes)) {
		errs.add(stint.CheckName("volumes."+name, name))
	}
	if len(n.Model) > maxModel || strings.ContainsRune(n.Model, 0) {
		errs.invalid("model", "'model' may have %d bytes at most, without a NUL character.", maxModel)
	}
	errs.add(checkTimeout("timeout", n.Timeout))
	errs.add(checkLimits("limits", n.Limits))
	return stint.JoinErrors(errs...)
}

// CheckMetadata returns an error that lists the invalid members of the metadata of a run.
func CheckMetadata(values map[string]string) error {
	var errs errorList
	errs.metadata(values)
	return stint.JoinErrors(errs...)
}

func (l *errorList) environment(param string, values map[string]string) {
	if len(values) > stint.MaxVariables {
		l.invalid(param, "'%s' may have %d members at most.", param, stint.MaxVariables)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := param + "." + name
		if e := stint.CheckVariable(at, name); e != nil {
			l.add(e)
		} else if len(values[name]) > stint.MaxVariableBytes {
			l.invalid(at, "'%s' may have %d bytes at most.", at, stint.MaxVariableBytes)
		} else if strings.ContainsRune(values[name], 0) {
			l.invalid(at, "'%s' may not contain a NUL character.", at)
		}
	}
}

func (l *errorList) metadata(values map[string]string) {
	if len(values) > stint.MaxMetadata {
		l.invalid("metadata", "'metadata' may have %d members at most.", stint.MaxMetadata)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key == "" || utf8.RuneCountInString(key) > stint.MaxMetadataKey || utf8.RuneCountInString(values[key]) > stint.MaxMetadataValue {
			l.invalid("metadata."+key, "A key of 'metadata' has 1 to %d characters, a value %d at most.", stint.MaxMetadataKey, stint.MaxMetadataValue)
		}
	}
}

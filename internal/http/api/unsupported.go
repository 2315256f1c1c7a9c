package api

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
)

// unsupportedMembers contains the members of a run request that clients may know but
// that this version does not support: what is missing, and what to do instead.
var unsupportedMembers = map[string]string{
	"webhook":     "Stint does not send webhooks yet. Leave it out, and follow the run's events at GET /v1/runs/{id}/events, or send 'Prefer: wait=60'.",
	"startAt":     "runs cannot be scheduled yet. Leave it out, and send the request at that time.",
	"permissions": "agents cannot ask for approval yet. Leave it out, and restrict the agent in its definition.",
}

// onBusyValues are the values of onBusy in the order of the documentation. Only the
// first is supported.
var onBusyValues = []string{"enqueue", "reject", "interrupt", "rollback"}

// unsupportedMember returns an error for a member of a run request that this version does
// not support. All other members without a field are ignored.
func unsupportedMember(path string, raw json.RawMessage) *stint.Error {
	if path == "onBusy" {
		return checkOnBusy(raw)
	}
	if text, ok := unsupportedMembers[path]; ok {
		return stint.InvalidParam(path, "'%s' is not supported by this version: %s", path, text)
	}
	return nil
}

func checkOnBusy(raw json.RawMessage) *stint.Error {
	var value string
	err := json.Unmarshal(raw, &value)
	switch {
	case err == nil && value == onBusyValues[0]:
		return nil
	case err == nil && slices.Contains(onBusyValues, value):
		return stint.InvalidParam("onBusy", "'onBusy: %s' is not supported by this version: runs of a session always execute one after the other. Leave it out, or use 'enqueue'.", value)
	}
	return stint.InvalidParam("onBusy", "'onBusy' must be one of %s; this version supports only 'enqueue'.", strings.Join(onBusyValues, ", "))
}

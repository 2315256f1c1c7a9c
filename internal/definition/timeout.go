package definition

import (
	"time"

	"github.com/stint-dev/stint"
)

// ParseTimeout parses a time limit: a Go duration from stint.MinTimeout to
// stint.MaxTimeout. param is the name of the parameter in the error.
func ParseTimeout(param, s string) (time.Duration, *stint.Error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < stint.MinTimeout || d > stint.MaxTimeout {
		return 0, stint.InvalidParam(param, "'%s' must be a duration from 1s to 168h, such as 90s, 30m, or 2h.", param)
	}
	return d, nil
}

// checkTimeout returns an error for a time limit that is neither empty nor valid.
func checkTimeout(param, s string) *stint.Error {
	if s == "" {
		return nil
	}
	_, e := ParseTimeout(param, s)
	return e
}

// Timeout returns the time limit of an agent's runs, or stint.DefaultTimeout if the
// definition contains no valid time limit.
func Timeout(d *stint.Definition) time.Duration {
	if t, err := ParseTimeout("timeout", d.Timeout); err == nil {
		return t
	}
	return stint.DefaultTimeout
}

// RunTimeout returns the time limit of a run: the limit in the request, or else the
// limit of the agent. If the limit in the request is longer, it returns an error.
func RunTimeout(n *stint.NewRun, d *stint.Definition) (time.Duration, error) {
	limit := Timeout(d)
	if n.Timeout == "" {
		return limit, nil
	}
	requested, e := ParseTimeout("timeout", n.Timeout)
	if e != nil {
		return 0, e
	}
	if requested > limit {
		return 0, stint.InvalidParam("timeout", "'timeout' is %s, but the agent allows at most %s. Use less, or change the agent.", requested, limit)
	}
	return requested, nil
}

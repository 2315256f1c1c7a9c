package definition

import (
	"time"

	"github.com/stint-dev/stint"
)

// ParseTimeout parses a time limit: a Go duration from stint.MinTimeout to
// stint.MaxTimeout.
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

// Timeout returns the time limit of the agent's runs.
func Timeout(d *stint.Definition) time.Duration {
	if t, err := ParseTimeout("timeout", d.Timeout); err == nil {
		return t
	}
	return stint.DefaultTimeout
}

// RunTimeout returns the time limit of a run: the agent's, or a shorter one
// that the request contains.
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

package definition

import (
	"cmp"
	"time"

	"github.com/stint-dev/stint"
)

// Defaults and bounds of time limits and output.
const (
	DefaultTimeout     = 2 * time.Hour
	MaxTimeout         = 7 * 24 * time.Hour
	DefaultOutputBytes = 64 * stint.MiB
	MaxOutputBytes     = 16 * stint.GiB
)

// Bounds of a request to create a run.
const (
	maxPrompt    = 512 << 10 // bytes
	maxVariables = 512
	maxValue     = 64 << 10 // bytes of one variable or secret
	maxMetadata  = 16
	maxMetaKey   = 64  // characters
	maxMetaValue = 512 // characters
	maxPriority  = 9
)

// CheckLimits returns an error if l contains an invalid value. at is the path
// of l in the request.
func CheckLimits(at string, l *stint.Limits) *stint.Error {
	if l.OutputBytes < 0 || l.OutputBytes > MaxOutputBytes {
		return stint.InvalidParam(at+".outputBytes", "'%s.outputBytes' must be between 1 and %s.", at, MaxOutputBytes)
	}
	if l.MaxTurns < 0 || l.MaxTokens < 0 || l.MaxCostUSD < 0 {
		return stint.InvalidParam(at, "'%s.maxTurns', '%s.maxTokens', and '%s.maxCostUsd' cannot be negative.", at, at, at)
	}
	if l.IdleTimeout != "" {
		if _, e := ParseTimeout(at+".idleTimeout", l.IdleTimeout); e != nil {
			return e
		}
	}
	return nil
}

// ParseTimeout parses a time limit: a Go duration from 1s to 168h.
func ParseTimeout(param, s string) (time.Duration, *stint.Error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > MaxTimeout {
		return 0, stint.InvalidParam(param, "'%s' must be a duration from 1s to 168h, such as 90s, 30m, or 2h.", param)
	}
	return d, nil
}

// Timeout returns the time limit of the agent's runs.
func Timeout(d *stint.Definition) time.Duration {
	if t, err := ParseTimeout("timeout", d.Timeout); err == nil {
		return t
	}
	return DefaultTimeout
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

// RunLimits returns the limits of a run: the agent's, or tighter ones that the
// request contains.
func RunLimits(n *stint.NewRun, d *stint.Definition) (stint.Limits, error) {
	l := stint.Limits{}
	if d.Limits != nil {
		l = *d.Limits
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = DefaultOutputBytes
	}
	if n.Limits == nil {
		return l, nil
	}
	return tighten(l, n.Limits)
}

// tighten returns l with the values of requested that are not 0. A value that
// is looser than that of l is an error.
func tighten(l stint.Limits, requested *stint.Limits) (stint.Limits, error) {
	var errs errorList
	tightenOne(&errs, "outputBytes", &l.OutputBytes, requested.OutputBytes)
	tightenOne(&errs, "maxTurns", &l.MaxTurns, requested.MaxTurns)
	tightenOne(&errs, "maxTokens", &l.MaxTokens, requested.MaxTokens)
	tightenOne(&errs, "maxCostUsd", &l.MaxCostUSD, requested.MaxCostUSD)
	idle := l.Idle()
	if tightenOne(&errs, "idleTimeout", &idle, requested.Idle()) {
		l.IdleTimeout = requested.IdleTimeout
	}
	return l, stint.JoinErrors(errs...)
}

// tightenOne sets limit to requested and reports whether it did. In both, 0 is
// no limit.
func tightenOne[T cmp.Ordered](errs *errorList, member string, limit *T, requested T) bool {
	var none T
	if requested <= none {
		return false
	}
	if *limit != none && requested > *limit {
		errs.invalid("limits."+member, "'limits.%s' is %v, but the agent allows at most %v.", member, requested, *limit)
		return false
	}
	*limit = requested
	return true
}

package definition

import (
	"cmp"

	"github.com/stint-dev/stint"
)

// checkLimits returns an error if l contains an invalid value. at is the path
// of l in the request, and l can be nil.
func checkLimits(at string, l *stint.Limits) *stint.Error {
	switch {
	case l == nil:
		return nil
	case l.OutputBytes < 0 || l.OutputBytes > stint.MaxOutputBytes:
		return stint.InvalidParam(at+".outputBytes", "'%s.outputBytes' must be between 1 and %s.", at, stint.MaxOutputBytes)
	case l.MaxTurns < 0 || l.MaxTokens < 0 || l.MaxCostUSD < 0:
		return stint.InvalidParam(at, "'%s.maxTurns', '%s.maxTokens', and '%s.maxCostUsd' cannot be negative.", at, at, at)
	}
	return checkTimeout(at+".idleTimeout", l.IdleTimeout)
}

// RunLimits returns the limits of a run: those of the agent, replaced by tighter
// limits in the request. If a limit in the request is looser, or limits costs that are
// not known, it returns an error.
func RunLimits(n *stint.NewRun, d *stint.Definition) (stint.Limits, error) {
	l := stint.Limits{}
	if d.Limits != nil {
		l = *d.Limits
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = stint.DefaultOutputBytes
	}
	if n.Limits == nil {
		return l, nil
	}
	l, err := tighten(l, n.Limits)
	if err != nil || n.Limits.MaxCostUSD == 0 {
		return l, err
	}
	run := *d
	run.Limits, run.Model = &l, cmp.Or(n.Model, d.Model)
	if e := CheckCost(&run); e != nil {
		return l, e
	}
	return l, nil
}

// tighten returns l with its values replaced by the values of requested that are not
// 0. If a requested value is looser than the value in l, it returns an error.
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

// tightenOne sets *limit to requested if that is tighter or equal, and reports whether
// it did. If requested is looser, it adds an error. A value of 0 means no limit.
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

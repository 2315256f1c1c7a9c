package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/transcript"
)

// accountLater is account for who holds the recorder.
func (j *job) accountLater() {
	select {
	case j.spent <- struct{}{}:
	default:
	}
}

// accounting looks at the budget whenever something was used.
func (j *job) accounting() (stop func()) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-j.spent:
				j.account()
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}

// account looks at the budget after something was used: it warns once for each
// bound, and ends the run beyond one.
func (j *job) account() {
	near, over := j.meter.check()
	if near != nil {
		j.record.notice(transcript.Notice("budget", fmt.Sprintf("The run has used %s (limits.%s).", near.text, near.name)))
	}
	if over != nil {
		j.cancel(*over)
	}
}

// overBudget is the cause of a run's end by its budget: a bound is exceeded, or
// that on the cost cannot be held, as a model has no price.
type overBudget struct {
	bound
	unpriced *string
}

func (o overBudget) Error() string { return "budget: " + o.ending().message }

func (o overBudget) Is(err error) bool { return err == errBudget }

func (o overBudget) ending() ending {
	message := fmt.Sprintf("The run has used %s and was ended. Raise limits.%s in the agent's definition, or ask for less in one run.", o.text, o.name)
	if o.unpriced != nil {
		message = noPrice(*o.unpriced)
	}
	return ending{status: stint.Failed, reason: stint.ReasonBudget, message: message}
}

func noPrice(model string) string {
	what, price := fmt.Sprintf("the model '%s'", model), fmt.Sprintf("one for '%s', or for '*',", model)
	if model == "" {
		what, price = "a model that nobody names", "one for '*'"
	}
	return fmt.Sprintf("The run asked %s, which has no price, so that limits.maxCostUsd cannot be held, and was ended. Add %s to provider.prices in the agent's definition, or bound limits.maxTokens instead.", what, price)
}

// defaultIdle bounds the silence of agents that speak a protocol, where their
// limits do not: programs that hang without a word are known of most of them,
// and the longest tools that they run themselves end after ten minutes; our own
// assistant says that a command of its goes on.
const defaultIdle = 30 * time.Minute

// idleLimit is how long the run may be silent; 0 is no bound.
func (j *job) idleLimit() time.Duration {
	if limit := j.a.Plan.Limits.Idle(); limit > 0 || !j.plan.Protocol {
		return limit
	}
	return defaultIdle
}

// idle ends the run when nothing is heard of it for too long.
func (j *job) idle() (stop func()) {
	limit := j.idleLimit()
	if limit <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(j.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			left := limit - j.e.c.Now().Sub(j.meter.lastHeard())
			if left <= 0 {
				j.cancel(errIdle)
				return
			}
			timer.Reset(left)
		}
	})
	return func() { cancel(); wg.Wait() }
}

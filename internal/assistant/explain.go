package assistant

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/assistant/protocol"
	"github.com/stint-dev/stint/internal/model"
)

// failure ends the run with a sentence for its user.
type failure struct {
	reason   stint.Reason // empty is that of a failed program
	sentence string
}

func (f *failure) Error() string { return f.sentence }

// sentence tells a user what went wrong and what to do.
func sentence(err error, c *protocol.Config) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.sentence
	}
	if e, ok := errors.AsType[*model.Error](err); ok {
		return explain(e, c)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return "The assistant was interrupted."
	}
	return fmt.Sprintf("The assistant failed: %v.", err)
}

// explain tells what a failure of the model's endpoint means.
func explain(e *model.Error, c *protocol.Config) string {
	switch e.Fault() {
	case model.FaultKey:
		return fmt.Sprintf("The model's endpoint refused the key (%v). Put a valid one into the secret that provider.apiKey names.", e)
	case model.FaultModel:
		return fmt.Sprintf("The model's endpoint does not know the model '%s' (%v). Set 'model' to one that it offers.", c.Model, e)
	case model.FaultAddress:
		return fmt.Sprintf("Nothing at the provider's address speaks %s (%v). Check provider.baseUrl and provider.type.", c.Provider, e)
	case model.FaultContext:
		return fmt.Sprintf("The conversation is too long for the model '%s' (%v). Begin a new session, or set 'model' to one with a longer context.", c.Model, e)
	case model.FaultRate:
		return fmt.Sprintf("The model's endpoint takes no more requests for now (%v). Try again later.", e)
	case model.FaultQuota:
		return fmt.Sprintf("The account at the model's endpoint has nothing left (%v). Raise its limit or pay its bill.", e)
	case model.FaultUnreachable:
		return fmt.Sprintf("The model's endpoint could not be reached (%v). Check provider.baseUrl, and that the server runs and can be reached from this worker.", e)
	case model.FaultRequest:
		return fmt.Sprintf("The model's endpoint did not take the request (%v). Check that 'model' fits provider.type and can use tools.", e)
	}
	return fmt.Sprintf("The model's endpoint failed (%v). Try again later.", e)
}

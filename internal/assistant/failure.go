package assistant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework/assistant/protocol"
	"github.com/stint-dev/stint/internal/llm"
)

// failure ends the run with a message for the user.
type failure struct {
	reason   stint.Reason // empty for a failed program
	sentence string
}

func (f *failure) Error() string { return f.sentence }

// messageFor returns a message for the user that describes err and says what to do.
func messageFor(err error, c *protocol.Config) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.sentence
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return explain(e, c)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return "The assistant was interrupted."
	}
	return fmt.Sprintf("The assistant failed: %v.", err)
}

// explain returns the message for an error of the model's endpoint.
func explain(e *llm.Error, c *protocol.Config) string {
	said := strings.TrimSuffix(e.Error(), ".")
	switch e.Fault() {
	case llm.FaultKey:
		return fmt.Sprintf("The model's endpoint refused the key (%s). Put a valid one into the secret that provider.apiKey names.", said)
	case llm.FaultModel:
		return fmt.Sprintf("The model's endpoint does not know the model '%s' (%s). Set 'model' to one that it offers.", c.Model, said)
	case llm.FaultAddress:
		return fmt.Sprintf("The provider's address does not serve the API '%s' (%s). Check provider.baseUrl and provider.type.", c.Provider, said)
	case llm.FaultContext:
		return fmt.Sprintf("The conversation is too long for the model '%s' (%s). Begin a new session, or set 'model' to one with a longer context.", c.Model, said)
	case llm.FaultRate:
		return fmt.Sprintf("The model's endpoint accepts no more requests for now (%s). Try again later.", said)
	case llm.FaultQuota:
		return fmt.Sprintf("The account at the model's endpoint has no credit left (%s). Raise its limit, or add credit.", said)
	case llm.FaultUnreachable:
		return fmt.Sprintf("The model's endpoint could not be reached (%s). Check provider.baseUrl, that the server runs, and that the agent's network lets it through.", said)
	case llm.FaultRequest:
		return fmt.Sprintf("The model's endpoint did not accept the request (%s). Check that 'model' fits provider.type and can use tools.", said)
	}
	return fmt.Sprintf("The model's endpoint failed (%s). Try again later.", said)
}

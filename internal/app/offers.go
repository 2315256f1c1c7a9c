package app

import (
	"context"
	"errors"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/agents"
)

// offers determines which definitions this installation can run.
type offers struct {
	isolators *isolators
	images    *images
}

// check reports the settings of a definition that this server cannot serve.
func (o *offers) check(_ context.Context, d *stint.Definition) (agents.Offer, error) {
	var offer agents.Offer
	for _, err := range []error{o.isolators.allows(d.Sandbox), o.images.allows(d.Image)} {
		if e, ok := errors.AsType[*stint.Error](err); ok {
			offer.Errors = append(offer.Errors, e)
		} else if err != nil {
			return agents.Offer{}, err
		}
	}
	return offer, nil
}

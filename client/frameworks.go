package client

import (
	"context"

	"github.com/stint-dev/stint"
)

// Frameworks tells the ways of driving agents that the server knows, and
// whether they work there.
func (c *Client) Frameworks(ctx context.Context) ([]stint.Framework, error) {
	answer, err := get[struct {
		Data []stint.Framework `json:"data"`
	}](ctx, c, "frameworks")
	return answer.Data, err
}

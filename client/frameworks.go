package client

import (
	"context"

	"github.com/stint-dev/stint"
)

// Frameworks returns the frameworks of the server and whether their programs are
// installed.
func (c *Client) Frameworks(ctx context.Context) ([]stint.Framework, error) {
	list, err := get[stint.Page[stint.Framework]](ctx, c, "frameworks")
	if err != nil {
		return nil, err
	}
	return list.Data, nil
}

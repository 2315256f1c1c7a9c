package store

import (
	"context"
	"time"
)

// Statistics reads numbers about the whole installation. They are for operators: callers
// must not return them to users of an organisation.
type Statistics interface {
	// Load returns the numbers of open runs and of workers. Each number is at most
	// MaxCount.
	Load(ctx context.Context) (Load, error)
	// OrgLoads returns the numbers of open runs of up to limit organisations, the
	// oldest organisations first.
	OrgLoads(ctx context.Context, limit int) ([]OrgLoad, error)
	// FirstOrg returns the ID of the oldest organisation, whose owners are operators. If
	// there is none, the error is ErrNotFound.
	FirstOrg(ctx context.Context) (string, error)
}

// MaxCount is the greatest number that Load and OrgLoads count.
const MaxCount = 100_000

// Load contains numbers of open runs.
type Load struct {
	Running int
	Pending int
	Oldest  time.Duration // age of the oldest pending run; 0 if there is none
	Workers int           // workers with a lease
}

// OrgLoad contains the open runs of an organisation. Workers is not set.
type OrgLoad struct {
	OrgID, OrgName string
	Load
}

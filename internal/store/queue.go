package store

import "github.com/stint-dev/stint"

// QueuedRun is a pending run with the facts that decide when it starts.
type QueuedRun struct {
	ID             string
	AgentID        string
	AgentVersionID string
	SessionID      string
	// Ready is false while an earlier run of the session has not ended, and during a pause
	// before a retry.
	Ready     bool
	RetryAt   *stint.Time
	Placement map[string]string // labels that the run's worker must have; U+0000 and U+0001 are escaped
	Before    string            // the oldest open run of the session, if the run is not ready
	Ahead     int               // number of ready runs of the organisation that are claimed earlier
}

// QueueState contains the number of running runs of an organisation, and the workers of
// the installation.
type QueueState struct {
	Running   int
	RunningOf map[string]int // by agent
	Workers   []LiveWorker
}

// LiveWorker is a worker with a valid lease.
type LiveWorker struct {
	Host     string
	Capacity int
	Running  int
	Offer    *Host // nil if the host was not described yet
}

package stint

// Queue describes why a run is pending.
type Queue struct {
	// Position is the number of the run in its organisation's queue, from 1, in the order
	// in which runs are started. It is nil while the run cannot be started.
	Position *int        `json:"position"`
	Reason   QueueReason `json:"reason"`
	Message  string      `json:"message"` // for users
}

// QueueReason is the reason for which a run is pending.
type QueueReason string

// The reasons.
const (
	QueueCapacity          QueueReason = "capacity"           // the workers are busy, or one is about to start the run
	QueueOrganisationLimit QueueReason = "organisation_limit" // the organisation has its maximum of running runs
	QueueAgentLimit        QueueReason = "agent_limit"        // the agent has its maximum of running runs
	QueueSession           QueueReason = "session"            // an earlier run of the session has not ended
	QueueRetry             QueueReason = "retry"              // the pause before the next attempt
	QueuePlacement         QueueReason = "placement"          // no worker has the required labels
	QueueIsolation         QueueReason = "isolation"          // no worker has the required isolator
	QueueUnhealthy         QueueReason = "unhealthy"          // sandboxes do not start on the worker
	QueueSalvage           QueueReason = "salvage"            // the files of the session's last run are being stored after a crash
)

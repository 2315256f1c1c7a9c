// Package notify answers: how does a process wake another?
//
// It is a port. Wake-ups are hints without data: a waiter that hears one
// reads the store again. Losing every wake-up costs latency, never truth, so
// each waiter also polls. The adapters inproc and pgnotify pass notifytest.
package notify

// Bus carries wake-ups between those who changed something and those who
// wait for it. It is safe for concurrent use.
type Bus interface {
	// Publish wakes the subscribers of topic, in this process at once and in
	// others soon. It never blocks and never fails: a lost wake-up is made up
	// for by the waiter's poll. Call it after the commit, never inside a
	// transaction.
	Publish(topic string)
	// Subscribe returns a channel that receives after each Publish of topic.
	// Wake-ups coalesce: at least one value follows the last Publish, a slow
	// receiver loses only repeats. cancel ends the subscription; it is
	// idempotent. The channel is never closed.
	Subscribe(topic string) (wake <-chan struct{}, cancel func())
	// Close ends the bus and waits for what it started.
	Close() error
}

// TopicQueue is published when a run becomes ready to be claimed.
const TopicQueue = "queue"

// TopicRun is published when the journal of a run has grown.
func TopicRun(runID string) string { return "run:" + runID }

// TopicStop is published when a run that a worker may hold has ended by other
// hands: cancelled or reaped.
func TopicStop(runID string) string { return "stop:" + runID }

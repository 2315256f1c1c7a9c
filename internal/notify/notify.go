// Package notify defines the port for wake-ups between goroutines and processes.
//
// A wake-up is a hint without data: a waiter that receives one reads the store
// again. A lost wake-up costs latency but not correctness, because every waiter
// also polls. The adapters inproc and pgnotify pass the suite in notifytest.
package notify

// Bus delivers wake-ups from writers to waiters. It is safe for concurrent use.
type Bus interface {
	// Publish wakes the subscribers of topic: those in this process before it
	// returns, those in other processes soon. It never blocks and never fails,
	// because waiters also poll. Call it after the commit, never inside
	// a transaction.
	Publish(topic string)
	// Subscribe returns a channel that receives after each Publish of topic.
	// Wake-ups coalesce: a slow receiver misses only repeats, and at least one
	// value follows the last Publish. cancel ends the subscription and is
	// idempotent. The channel is never closed.
	Subscribe(topic string) (wake <-chan struct{}, cancel func())
	// Close ends the bus and waits for its goroutines.
	Close() error
}

// TopicQueue is published when a run may have become ready to be claimed: after the
// creation of a run that no worker has claimed, and after the end of a run.
const TopicQueue = "queue"

// TopicRun returns the topic that is published when the journal of a run has grown.
func TopicRun(runID string) string { return "run:" + runID }

// TopicStop returns the topic that is published when a run has ended or was queued
// again. The run's worker, which may still execute a cancelled or reaped run, and
// callers that wait for the end subscribe to it.
func TopicStop(runID string) string { return "stop:" + runID }

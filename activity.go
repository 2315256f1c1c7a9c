package stint

// Activity is the response of GET /v1/activity: the open runs of an organisation.
type Activity struct {
	At      Time        `json:"at"`      // when the server read the runs
	Running int         `json:"running"` // number of running runs
	Pending int         `json:"pending"` // number of pending runs, at most MaxPendingCount
	Data    []ActiveRun `json:"data"`    // running runs, oldest first, and then pending runs in the order of the queue
}

// MaxPendingCount is the greatest number of pending runs that Activity counts.
const MaxPendingCount = 10000

// Limits of Activity.
const (
	DefaultActivityLimit = 100
	MaxActivityLimit     = 500
	MaxActivityPrompt    = 200 // characters of a prompt
)

// ActiveRun is a running or pending run with what it uses now. The prompt is cut after
// MaxActivityPrompt characters.
type ActiveRun struct {
	RunSummary
	SessionID string         `json:"sessionId"`
	Priority  int            `json:"priority"`
	Attempt   int            `json:"attempt"` // number of the newest attempt; 0 before the first one
	WorkerID  *string        `json:"workerId"`
	Isolation *string        `json:"isolation"` // nil until the first sample, and while the run is pending
	Queue     *Queue         `json:"queue"`     // why the run is pending; nil if it is running
	Metrics   *MetricsSample `json:"metrics"`   // the newest sample; nil before the first one and while the run is pending
	Usage     *Usage         `json:"usage"`     // so far; nil if no model was called
}

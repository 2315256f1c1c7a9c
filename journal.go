package stint

import (
	"encoding/json"
	"math"
)

// EventType is the type of an event in a run's stream.
type EventType string

// The types of events. Heartbeats are not stored.
const (
	EventStatus    EventType = "status"
	EventOutput    EventType = "output"
	EventError     EventType = "error"
	EventComplete  EventType = "complete"
	EventHeartbeat EventType = "heartbeat"
)

// Event is one entry of a run's journal. Seq is 1, 2, 3 … without gaps and is
// the event's ID in the stream. Data is a JSON object.
type Event struct {
	Seq  int64           `json:"id,string"`
	Type EventType       `json:"type"`
	At   Time            `json:"timestamp"`
	Data json.RawMessage `json:"data"`
}

// StatusData is the payload of a status event.
type StatusData struct {
	Status Status `json:"status"`
	// Attempt is set if the run is pending again after a failed attempt.
	Attempt int `json:"attempt,omitempty"`
	// Note of a running status says what the run started from, if this is not what
	// the request implies. Note of a pending status describes the failed attempt.
	Note string `json:"note,omitempty"`
}

// OutputData is the payload of an output event: the agent's text.
type OutputData struct {
	Content string `json:"content"`
	Stream  string `json:"stream,omitempty"` // stdout or stderr
	Item    *Item  `json:"item,omitempty"`   // structured data from the framework
}

// ErrorData is the payload of an error event.
type ErrorData struct {
	Message string `json:"message"`
	Code    string `json:"code"`
}

// CompleteData is the payload of the last event.
type CompleteData struct {
	Status          Status  `json:"status"`
	ExecutionTimeMs int64   `json:"executionTimeMs"`
	StatusReason    *Reason `json:"statusReason,omitempty"`
	StatusMessage   *string `json:"statusMessage,omitempty"`
	ExitCode        *int    `json:"exitCode,omitempty"`
	ArtifactName    *string `json:"artifactName,omitempty"`
	ArtifactVersion *string `json:"artifactVersion,omitempty"`
	CheckpointID    *string `json:"checkpointId,omitempty"`
	// HeadMovedFrom has the same value as in Run.
	HeadMovedFrom *HeadMove `json:"headMovedFrom,omitempty"`
	// Usage and Result have the same values as in Run.
	Usage  json.RawMessage `json:"usage,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// LogType is the source of a log entry.
type LogType string

// The types of log entries.
const (
	LogAgent   LogType = "agent"
	LogSystem  LogType = "system"
	LogNetwork LogType = "network"
)

// LogEntry is one line of a run's log. Level is debug, info, warn, or error.
// Metadata is an object, which may be empty.
type LogEntry struct {
	Timestamp Time           `json:"timestamp"`
	Type      LogType        `json:"type"`
	Level     string         `json:"level"`
	Message   string         `json:"message"`
	Metadata  map[string]any `json:"metadata"`
}

// MetricsSample contains the resource usage of a sandbox at one time. 100 CPU
// percent is one core, a MB is 2^20 bytes, and totals are the sandbox's limits.
type MetricsSample struct {
	Timestamp     Time    `json:"timestamp"`
	CPUPercent    float64 `json:"cpuPercent"`
	MemoryUsedMb  int64   `json:"memoryUsedMb"`
	MemoryTotalMb int64   `json:"memoryTotalMb"`
	DiskUsedMb    int64   `json:"diskUsedMb"`
	DiskTotalMb   int64   `json:"diskTotalMb"`
}

// MetricsSummary summarizes the samples of a run. TotalDurationMs is nil until
// the run has ended.
type MetricsSummary struct {
	AvgCPUPercent   float64 `json:"avgCpuPercent"`
	MaxMemoryUsedMb int64   `json:"maxMemoryUsedMb"`
	TotalDurationMs *int64  `json:"totalDurationMs"`
}

// Metrics is the response of GET /v1/runs/:id/metrics.
type Metrics struct {
	Data    []MetricsSample `json:"data"`
	Summary MetricsSummary  `json:"summary"`
}

// Summarize returns the summary of samples, with an average of three decimals. Without
// samples, the average and the maximum are 0. totalMs becomes TotalDurationMs.
func Summarize(samples []MetricsSample, totalMs *int64) MetricsSummary {
	s := MetricsSummary{TotalDurationMs: totalMs}
	for _, m := range samples {
		s.AvgCPUPercent += m.CPUPercent
		s.MaxMemoryUsedMb = max(s.MaxMemoryUsedMb, m.MemoryUsedMb)
	}
	if len(samples) > 0 {
		s.AvgCPUPercent = math.Round(1000*s.AvgCPUPercent/float64(len(samples))) / 1000
	}
	return s
}

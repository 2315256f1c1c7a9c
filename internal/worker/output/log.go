package output

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/egress/log"
	"github.com/stint-dev/stint/internal/framework"
)

// maxNative is the maximum number of bytes of a line of the agent's protocol in a log
// entry.
const maxNative = 64 << 10

// System logs an action of the server for the run. It never waits. System masks the
// message, but metadata must not contain secrets.
func (p *Pipeline) System(level, message string, metadata map[string]any) {
	if metadata == nil {
		metadata = map[string]any{}
	}
	p.queue.addLog(stint.LogEntry{
		Timestamp: stint.TimeOf(p.c.Now()), Type: stint.LogSystem, Level: level, Message: p.c.Masker.Mask(message), Metadata: metadata,
	})
}

// native logs a line of the agent's protocol. p.mu is held.
func (p *Pipeline) native(n framework.Native) {
	metadata := map[string]any{"framework": p.c.Framework, "native": true}
	if n.Type != "" {
		metadata["nativeType"] = p.c.Masker.Mask(n.Type)
	}
	line := p.c.Masker.Mask(n.Line)
	if len(line) > maxNative {
		line = line[:maxNative]
		metadata["truncated"], metadata["bytes"] = true, len(n.Line)
	}
	p.queue.addLog(stint.LogEntry{
		Timestamp: stint.TimeOf(p.c.Now()), Type: stint.LogAgent, Level: "debug",
		Message: strings.ToValidUTF8(line, "\uFFFD"), Metadata: metadata,
	})
}

// Network logs an attempt of the agent to reach the network. It never waits.
func (p *Pipeline) Network(e log.Entry) {
	level := "info"
	if e.Action == log.Deny {
		level = "warn"
	}
	p.queue.addLog(stint.LogEntry{
		Timestamp: stint.TimeOf(e.Time), Type: stint.LogNetwork, Level: level,
		Message: p.c.Masker.Mask(networkMessage(e)), Metadata: p.networkMetadata(e),
	})
}

// networkMessage returns an entry as one line.
func networkMessage(e log.Entry) string {
	if e.Action == log.Suppressed {
		text := fmt.Sprintf("%d entries (%s) were left out of this log", e.Count, e.Rule)
		if e.Error != "" {
			text += ": " + e.Error
		}
		return text
	}
	destination := e.URL
	if destination == "" {
		destination = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		if e.Port == 0 {
			destination = e.Host
		}
	}
	words := []string{e.Action, e.Method, destination}
	if e.Method == "" {
		words[1] = e.Protocol
	}
	if e.Status != 0 {
		words = append(words, strconv.Itoa(e.Status))
	}
	if e.Action == log.Deny {
		words = append(words, "("+e.Rule+")")
	}
	if e.Error != "" {
		words = append(words, e.Error)
	}
	return strings.Join(words, " ")
}

// networkMetadata returns the fields of an entry that are not zero, with masked texts.
func (p *Pipeline) networkMetadata(e log.Entry) map[string]any {
	m := map[string]any{"action": e.Action}
	if e.Open {
		m["open"] = true
	}
	for name, text := range map[string]string{"method": e.Method, "url": e.URL, "host": e.Host, "rule": e.Rule, "protocol": e.Protocol, "error": e.Error, "serverName": e.ServerName, "address": e.Address} {
		if text != "" {
			m[name] = p.c.Masker.Mask(text)
		}
	}
	for name, n := range map[string]int64{
		"port": int64(e.Port), "status": int64(e.Status), "requestBytes": e.RequestBytes, "responseBytes": e.ResponseBytes, "count": e.Count, "connection": e.Connection,
	} {
		if n != 0 {
			m[name] = n
		}
	}
	if len(e.Secrets) > 0 {
		names := make([]string, len(e.Secrets))
		for i, name := range e.Secrets {
			names[i] = p.c.Masker.Mask(name)
		}
		m["secrets"] = names
	}
	if e.Duration > 0 {
		m["durationMs"] = e.Duration.Milliseconds()
	}
	return m
}

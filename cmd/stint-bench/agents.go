package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"time"

	"github.com/stint-dev/stint"
)

// answers contains the event streams that model sends. A file is named after the last
// element of the request's path.
//
//go:embed model
var answers embed.FS

// model is an HTTP handler that acts as a model provider. It answers without delay,
// always with the same text.
func model(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	text, err := answers.ReadFile("model/" + path.Base(r.URL.Path) + ".sse")
	if err != nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write(text)
}

// agents measures how much time runs of installed agents spend outside the agent's
// program. The model answers without delay.
func (l *lab) agents(ctx context.Context) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	srv := &http.Server{Handler: http.HandlerFunc(model), ReadHeaderTimeout: patience}
	go srv.Serve(listener) //nolint:errcheck // until Close
	l.cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	at := stint.HostAlias + ":" + port
	s := l.start(ctx, l.folder())
	for _, f := range must(s.api.Frameworks(ctx)) {
		modelPath, known := map[string]string{"claude-code": "", "codex": "/v1"}[f.Name]
		switch {
		case !known:
		case !f.Available:
			l.add(Row{What: f.Name, Note: "not available here: " + oneLine(f.Reason)})
		default:
			s.createAgent(ctx, fmt.Sprintf(`{"name":%q,"framework":%[1]q,"model":"bench","provider":{"baseUrl":"http://%s%s"},"network":{"mode":"restricted","allow":[%[2]q]}}`,
				f.Name, at, modelPath))
			l.agentOverhead(ctx, s, f.Name)
		}
	}
}

// agentOverhead measures the time of a run less the time of its program.
func (l *lab) agentOverhead(ctx context.Context, s *server, name string) {
	var overhead, command []time.Duration
	for range max(l.samples/25, 2) + 1 {
		begin := time.Now()
		id := s.completed(ctx, stint.NewRun{Agent: name, Prompt: "Say something."})
		whole := time.Since(begin)
		inside := s.logged(ctx, id, "cause")
		command, overhead = append(command, inside), append(overhead, whole-inside)
	}
	// The first run fills the caches.
	row := compare(name+": a run from POST to its end, less its program's time", latency(overhead[1:]), "its program's time in the sandbox", latency(command[1:]))
	l.add(row, atMost("p50", row.Measured.P50Ms, 50, "ms"))
}

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

// answers are the event streams of the model, named after the end of the path.
//
//go:embed model
var answers embed.FS

// model answers every call at once with the same words.
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

// agents measures what runs of installed agents take outside their program, with a
// model that answers at once.
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
			l.agentShare(ctx, s, f.Name)
		}
	}
}

func (l *lab) agentShare(ctx context.Context, s *server, name string) {
	var share, command []time.Duration
	inTurn(ctx, 0, max(l.samples/25, 2)+1, func(ctx context.Context) bool {
		begin := time.Now()
		id := s.completed(ctx, stint.NewRun{Agent: name, Prompt: "Say something."})
		whole := time.Since(begin)
		command = append(command, s.logged(ctx, id, "cause"))
		share = append(share, whole-command[len(command)-1])
		return true
	})
	// The first run fills the caches.
	row := compare(name+": a run from POST to its end, less its program's time", latency(share[1:]), "its program's time in the sandbox", latency(command[1:]))
	l.add(row, atMost("p50", row.Measured.P50Ms, 50, "ms"))
}

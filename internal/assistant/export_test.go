package assistant

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/stint-dev/stint/internal/llm"
)

// Use runs a tool in dir and returns its result. Each value received from minutes is a
// tick of the one-minute timer; other timers never fire.
func Use(ctx context.Context, dir string, out io.Writer, minutes <-chan time.Time, name, input string) string {
	b := newToolbox(dir, newLineWriter(out))
	b.every = func(d time.Duration) (<-chan time.Time, func()) {
		if d != time.Minute {
			return nil, func() {}
		}
		return minutes, func() {}
	}
	return b.use(ctx, llm.Part{Name: name, Input: json.RawMessage(input)}).text
}

// Package output turns the output of an agent into events of its run.
//
// A Pipeline masks and decodes the output, queues the resulting events, and appends
// them to the run's journal. Plain text is masked before it is decoded, and the
// output of a protocol is masked after it is decoded. Every byte that an agent writes
// passes through a Pipeline. A single line is appended at once. If an agent writes faster than
// the journal, events are appended in batches and the agent waits.
package output

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/store"
)

// Reasons for Signals.Stop.
var (
	ErrLimit      = errors.New("output limit")
	ErrNotReading = errors.New("the agent does not read its standard input")
)

// maxTail is the maximum number of bytes from the end of stderr in an error message.
const maxTail = 2 << 10

// Signals receives notifications about the output. Its methods are called while the
// pipeline is locked: they must not block and must not call the pipeline.
type Signals interface {
	Heard()                               // the agent wrote something
	Used(usage *stint.Usage, turns int64) // the agent reported its usage or turns
	Ended()                               // the agent's terminal event was decoded; called once
	Conversed(c framework.Conversation)   // the data that the next run needs has changed
	Stop(reason error)                    // the run must end: ErrLimit or ErrNotReading
}

// Journal stores batches. It is the part of dispatch.Dispatcher that a pipeline
// uses.
type Journal interface {
	Append(ctx context.Context, at store.Position, b store.Batch) (head int64, err error)
}

// Config configures a Pipeline. All fields are required.
type Config struct {
	Masker    *masking.Masker
	Journal   Journal
	Position  store.Position // position of the journal at the start
	Limit     int64          // bytes that the agent may write
	Framework string         // for log entries
	Stdin     *Stdin         // receives the decoder's replies
	Signals   Signals
	// Fenced is called when the journal refuses an append because the run has
	// ended or belongs to another worker.
	Fenced func()
	Now    func() time.Time
	Logger *slog.Logger
}

// Pipeline turns the output of an agent into events of its run. It is safe for
// concurrent use. mu is locked before the queue's lock.
type Pipeline struct {
	c        Config
	queue    *queue
	appended chan struct{}  // closed when the appender has stopped
	position store.Position // written by the appender only, until appended is closed

	mu      sync.Mutex                 // guards the fields below
	decoder framework.Decoder          // nil before Decode
	masks   map[string]*masking.Stream // by stream; maskers of plain text
	events  *eventMasker               // nil if text is masked before it is decoded
	total   int64                      // bytes that the agent wrote
	tail    []byte                     // end of stderr, masked
	closed  bool                       // later output is dropped
	ended   bool                       // the terminal event was decoded

	conversation framework.Conversation // as reported to Signals
}

// Open returns a pipeline and starts a goroutine that appends. The caller must call
// Close. ctx must end when the run does not belong to this worker any more: a failed
// append is not repeated after that.
func Open(ctx context.Context, c Config) *Pipeline {
	p := &Pipeline{
		c: c, queue: newQueue(c.Now), position: c.Position, appended: make(chan struct{}),
		masks: map[string]*masking.Stream{framework.Stdout: c.Masker.Stream(), framework.Stderr: c.Masker.Stream()},
	}
	go p.appendAll(ctx)
	return p
}

// Decode sets the decoder. The output of a protocol is masked after it is
// decoded, other output before. Decode must be called before the first write.
func (p *Pipeline) Decode(d framework.Decoder, protocol bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decoder, p.conversation = d, d.Conversation()
	if protocol {
		p.events = newEventMasker(p.c.Masker)
	}
}

// Writer returns the writer of one stream. Its Write never fails; it waits
// while too much is queued, and drops output after the limit, after CloseOutput or
// Close, and after the run was lost.
func (p *Pipeline) Writer(stream string) io.Writer { return streamWriter{p, stream} }

type streamWriter struct {
	p      *Pipeline
	stream string
}

func (w streamWriter) Write(b []byte) (int, error) {
	if w.p.queue.waitForRoom() {
		w.p.write(w.stream, b)
	}
	return len(b), nil
}

func (p *Pipeline) write(stream string, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if left := p.c.Limit - p.total; int64(len(b)) > left {
		b = b[:max(left, 0)]
		p.c.Signals.Stop(ErrLimit)
	}
	p.total += int64(len(b))
	p.c.Signals.Heard()
	if p.events == nil {
		b = p.masks[stream].Write(b)
	}
	p.apply(p.decoder.Write(stream, b))
}

// apply queues the events of a decoder's step and performs its other actions. p.mu is
// held.
func (p *Pipeline) apply(s framework.Step) {
	if p.events != nil {
		s.Events = p.events.mask(s.Events)
	}
	p.add(s.Events)
	for _, n := range s.Native {
		p.native(n)
	}
	if s.Usage != nil || s.Turns > 0 {
		p.c.Signals.Used(s.Usage, s.Turns)
	}
	if !p.c.Stdin.Write(s.Send) {
		p.c.Signals.Stop(ErrNotReading)
	}
	if s.CloseStdin {
		p.c.Stdin.CloseWrite()
	}
	if c := p.decoder.Conversation(); c != p.conversation {
		p.conversation = c
		p.c.Signals.Conversed(c)
	}
	if s.Ended && !p.ended {
		p.ended = true
		p.c.Signals.Ended()
	}
}

// add queues masked events. p.mu is held.
func (p *Pipeline) add(events []stint.OutputData) {
	for _, e := range events {
		if e.Stream == framework.Stderr {
			p.tail = append(p.tail, e.Content...)
			p.tail = p.tail[max(0, len(p.tail)-maxTail):]
		}
	}
	p.queue.addEvents(events)
}

// Notice adds an event of the server to those of the agent.
func (p *Pipeline) Notice(o stint.OutputData) { p.queue.addEvents([]stint.OutputData{o}) }

// Interrupt returns a message for standard input that asks the agent to end, or nil if
// the framework has none.
func (p *Pipeline) Interrupt() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decoder.Interrupt()
}

// Verdict returns the framework's verdict on an agent with this exit code, and
// whether the agent's terminal event was decoded.
func (p *Pipeline) Verdict(exitCode int) (v framework.Verdict, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decoder.Verdict(exitCode), p.ended
}

// Conversation returns the data that the next run needs to continue the conversation.
func (p *Pipeline) Conversation() framework.Conversation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decoder.Conversation()
}

// StderrTail returns the end of the agent's output on stderr, masked, at most 2 KiB.
func (p *Pipeline) StderrTail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(p.tail), ""))
}

// CloseOutput flushes maskers and decoder. Later output is dropped; log entries
// are not. It is idempotent.
func (p *Pipeline) CloseOutput() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decoder != nil && !p.closed {
		for _, stream := range []string{framework.Stdout, framework.Stderr} {
			if p.events == nil {
				p.apply(p.decoder.Write(stream, p.masks[stream].Flush()))
			}
			p.apply(p.decoder.Flush(stream))
		}
		if p.events != nil {
			p.add(p.events.flush())
		}
	}
	p.closed = true
	p.queue.close()
}

// Rest is the state of the journal after Close.
type Rest struct {
	Position store.Position   // position after the last append
	Logs     []stint.LogEntry // entries that must be stored with the run's outcome
	Fenced   bool             // the run does not belong to this worker any more
}

// Close closes the output, waits until the queued events are appended, and returns the
// state of the journal.
func (p *Pipeline) Close() Rest {
	p.CloseOutput()
	<-p.appended
	logs, fenced := p.queue.rest()
	return Rest{p.position, logs, fenced}
}

package worker

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/framework"
	"github.com/stint-dev/stint/internal/masking"
	"github.com/stint-dev/stint/internal/store"
)

const (
	maxPending   = 1 << 20               // bytes that may wait; then the agent waits
	maxAside     = 4 << 20               // bytes of log entries that nobody waits for; then further ones are left out
	maxBatch     = 256 << 10             // bytes of the events of one append, and of its entries of the log
	maxEvents    = 256                   // events of one append, and entries of the log
	maxEvent     = 32 << 10              // bytes of one event's text
	partialDelay = 25 * time.Millisecond // how long a line without its end may wait for it
	logDelay     = 50 * time.Millisecond // how long log entries may wait for events, whose commit they share
	maxTail      = 2 << 10               // bytes of stderr that an error message shows
)

// recorder is the gate that everything from a sandbox passes: masked, bounded,
// then appended to the journal. Writers put output in; one goroutine appends
// what is waiting, so that a lone line goes at once and a flood goes in
// batches.
type recorder struct {
	j       *job
	masker  *masking.Masker
	masks   map[string]*masking.Stream // by stream
	decoder framework.Decoder
	conceal *concealer // of a protocol's events; nil: text is masked before it is decoded

	mu       sync.Mutex // guards what follows
	room     *sync.Cond // less is queued, or the recorder closed
	pending  []piece
	bytes    int // of all that is queued
	logs     []stint.LogEntry
	aside    int       // bytes of logs that are not of the agent's output
	dropped  int       // entries for which there was no room
	logsFrom time.Time // when the first of them came
	total    int64     // bytes that the agent wrote
	tail     []byte
	closed   bool // no more output comes
	ended    bool // the agent's last word was heard
	fenced   bool // the run is not ours any more; nothing is kept
	position store.Position
	batches  int64 // numbers them, so that a retry is known as such

	wake chan struct{} // there is something to append; buffered, 1
	done chan struct{}
}

// piece is output that waits to become an event.
type piece struct {
	stint.OutputData
	at stint.Time
}

func (j *job) openRecorder() {
	values := make([]string, 0, len(j.a.Given)+len(j.a.Stored))
	for _, secrets := range []map[string]string{j.a.Stored, j.a.Given} {
		for _, v := range secrets {
			values = append(values, v)
		}
	}
	r := &recorder{
		j: j, masker: masking.NewMasker(values), position: j.a.Position,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.room = sync.NewCond(&r.mu)
	r.masks = map[string]*masking.Stream{framework.Stdout: r.masker.Stream(), framework.Stderr: r.masker.Stream()}
	j.record = r
	go r.appendAll()
}

// decode sets who turns output into events. Call it before the first write.
func (r *recorder) decode(d framework.Decoder, protocol bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decoder = d
	if protocol {
		r.conceal = newConcealer(r.masker)
	}
}

// writer takes the output of one stream.
func (r *recorder) writer(stream string) io.Writer { return streamWriter{r, stream} }

type streamWriter struct {
	r      *recorder
	stream string
}

// Write takes output and never fails: after the limit, or once the run is
// somebody else's, the agent writes into nothing until it is ended.
func (w streamWriter) Write(p []byte) (int, error) {
	w.r.write(w.stream, p)
	return len(p), nil
}

func (r *recorder) write(stream string, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.bytes > maxPending && !r.closed && !r.fenced {
		r.room.Wait()
	}
	if r.closed || r.fenced {
		return
	}
	if left := r.j.a.Plan.OutputBytes - r.total; int64(len(p)) > left {
		p = p[:max(left, 0)]
		r.j.cancel(errOutputLimit)
	}
	r.total += int64(len(p))
	r.j.meter.hear(r.j.e.c.Now())
	if r.conceal == nil {
		p = r.masks[stream].Write(p)
	}
	r.take(r.decoder.Write(stream, p))
	r.signal()
}

// take does what a step of the decoder says. r.mu is held.
func (r *recorder) take(s framework.Step) {
	if r.conceal != nil {
		s.Events = r.conceal.mask(s.Events)
	}
	r.keep(s.Events)
	for _, n := range s.Native {
		r.native(n)
	}
	if s.Usage != nil || s.Turns > 0 {
		r.j.meter.told(s.Usage, s.Turns)
		r.j.accountLater()
	}
	if !r.j.stdin.write(s.Send) {
		r.j.cancel(errDeaf)
	}
	if s.CloseStdin {
		r.j.stdin.hangUp()
	}
	if s.Ended && !r.ended {
		r.ended = true
		close(r.j.lastWord)
	}
}

// notice adds an event of Stint's own to the agent's.
func (r *recorder) notice(o stint.OutputData) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fenced {
		return
	}
	r.keep([]stint.OutputData{o})
	r.signal()
}

// interrupt is what asks the agent to end.
func (r *recorder) interrupt() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decoder.Interrupt()
}

// verdict is the framework's word on the command's end; spoke tells that the
// agent's last word was heard.
func (r *recorder) verdict(exitCode int) (v framework.Verdict, spoke bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decoder.Verdict(exitCode), r.ended
}

// conversation is what the next run needs to continue.
func (r *recorder) conversation() framework.Conversation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decoder.Conversation()
}

// keep queues outputs, joining neighbours of one stream. r.mu is held.
func (r *recorder) keep(outputs []stint.OutputData) {
	now := stint.TimeOf(r.j.e.c.Now())
	for _, o := range outputs {
		if o.Content == "" && o.Item == nil {
			continue
		}
		if o.Stream == framework.Stderr {
			r.tail = append(r.tail, o.Content...)
			r.tail = r.tail[max(0, len(r.tail)-maxTail):]
		}
		if n := len(r.pending); n > 0 && joins(&r.pending[n-1].OutputData, &o) {
			r.pending[n-1].Content += o.Content
			r.bytes += len(o.Content)
			continue
		}
		r.bytes += eventSize(&o)
		r.pending = append(r.pending, piece{o, now})
	}
}

// joins reports whether b goes on where a ends: text of one stream, or pieces of
// one message.
func joins(a, b *stint.OutputData) bool {
	if len(a.Content)+len(b.Content) > maxEvent || a.Stream != b.Stream {
		return false
	}
	return a.Item == nil && b.Item == nil || a.Item != nil && a.Item.Delta && sameText(a.Item, b.Item)
}

func (r *recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// system logs what Stint did for the run.
func (r *recorder) system(level, message string, metadata map[string]any) {
	if metadata == nil {
		metadata = map[string]any{}
	}
	r.log(stint.LogEntry{
		Timestamp: stint.TimeOf(r.j.e.c.Now()), Type: stint.LogSystem, Level: level, Message: r.masker.Mask(message), Metadata: metadata,
	})
}

// log queues an entry that is not of the agent's output, and masked already. It
// never waits: where too many do, the entry is left out.
func (r *recorder) log(e stint.LogEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fenced:
	case r.aside > maxAside:
		r.dropped++
	default:
		r.aside += entrySize(&e)
		r.queueLog(e)
	}
}

// queueLog queues an entry. r.mu is held.
func (r *recorder) queueLog(e stint.LogEntry) {
	if len(r.logs) == 0 {
		r.logsFrom = r.j.e.c.Now()
	}
	r.bytes += entrySize(&e)
	r.logs = append(r.logs, e)
	r.signal()
}

// closeOutput takes what maskers and decoder hold back; output that comes
// later is dropped.
func (r *recorder) closeOutput() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decoder != nil && !r.closed {
		for _, stream := range []string{framework.Stdout, framework.Stderr} {
			if r.conceal == nil {
				r.take(r.decoder.Write(stream, r.masks[stream].Flush()))
			}
			r.take(r.decoder.Flush(stream))
		}
		if r.conceal != nil {
			r.keep(r.conceal.flush())
		}
	}
	r.closed = true
	r.room.Broadcast()
	r.signal()
}

// close appends all that is left and returns the position behind it, with the
// log entries that came too late for an append; ok is false when the run is
// somebody else's.
func (r *recorder) close() (at store.Position, rest []stint.LogEntry, ok bool) {
	r.closeOutput()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		r.queueLog(stint.LogEntry{
			Timestamp: stint.TimeOf(r.j.e.c.Now()), Type: stint.LogSystem, Level: "warn", Metadata: map[string]any{"entries": r.dropped},
			Message: fmt.Sprintf("%d entries were left out of this log, because they came faster than they could be stored.", r.dropped),
		})
		r.dropped = 0
	}
	return r.position, r.logs, !r.fenced
}

// stderrTail is the end of what the agent wrote on stderr, masked.
func (r *recorder) stderrTail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(r.tail), ""))
}

// clean replaces what is no UTF-8.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// appendAll appends batch after batch until the output is closed and nothing
// is left, or the run is somebody else's.
func (r *recorder) appendAll() {
	defer close(r.done)
	for {
		batch, more := r.next()
		if len(batch.Events) > 0 || len(batch.Logs) > 0 {
			if !r.append(batch) {
				r.fence()
				return
			}
			continue
		}
		if !more {
			return
		}
		<-r.wake
	}
}

// next takes a batch off the queue. The log entries of the very end stay, as far
// as they are one batch, for the finish to take along.
func (r *recorder) next() (b store.Batch, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b.Events = r.takeEvents()
	if len(b.Events) == 0 && r.logsOfBatch() == len(r.logs) {
		if r.closed {
			return b, false
		}
		if r.holdsLogs() {
			return b, true
		}
	}
	b.Logs = r.takeLogs()
	r.room.Broadcast()
	r.batches++
	b.Token = strconv.FormatInt(r.batches, 10)
	return b, true
}

// holds reports whether the newest piece should wait for the end of its line,
// and sees to it that it does not wait for long. r.mu is held.
func (r *recorder) holds(p *piece) bool {
	if r.closed || p.Item != nil && !p.Item.Delta || strings.HasSuffix(p.Content, "\n") || len(p.Content) >= maxEvent/2 {
		return false
	}
	age := r.j.e.c.Now().Sub(p.at.Time)
	if age >= partialDelay {
		return false
	}
	time.AfterFunc(partialDelay-age+time.Millisecond, r.signal)
	return true
}

// holdsLogs reports whether log entries alone should wait for events, and sees
// to it that they do not wait for long: a commit of theirs would be in the way
// of the agent's first words. r.mu is held.
func (r *recorder) holdsLogs() bool {
	age := r.j.e.c.Now().Sub(r.logsFrom)
	if len(r.logs) == 0 || age >= logDelay {
		return false
	}
	time.AfterFunc(logDelay-age+time.Millisecond, r.signal)
	return true
}

// append stores a batch, trying again until the run's owner is known to be
// another or the job is given up. Then it waits for no answer either.
func (r *recorder) append(b store.Batch) bool {
	ctx := r.j.ours
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		head, err := r.j.e.c.Dispatcher.Append(ctx, r.position, b)
		if err == nil {
			r.mu.Lock()
			r.position.After = head
			r.mu.Unlock()
			return true
		}
		if _, fenced := errors.AsType[*store.FencedError](err); fenced {
			r.j.disown(errStopped)
			return false
		}
		if r.j.givenUp() {
			return false
		}
		r.j.log.Warn("append to journal; trying again", "error", err)
		pause(ctx, wait)
	}
}

// fence drops everything: the run is somebody else's.
func (r *recorder) fence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fenced, r.pending, r.logs, r.bytes, r.aside = true, nil, nil, 0, 0
	r.room.Broadcast()
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const durableBytes = 512

// durableWrites measures the least that any durable step costs here: appending
// 512 bytes to a file and syncing its data, one after the other.
func durableWrites(ctx context.Context, dir string, d time.Duration) (Sample, error) {
	f, err := os.Create(filepath.Join(dir, "durable"))
	if err != nil {
		return nil, fmt.Errorf("durable writes: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the folder goes too
	defer f.Close()
	block := make([]byte, durableBytes)
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < d && ctx.Err() == nil; {
		start := time.Now()
		if err := writeDurably(f, block); err != nil {
			return nil, fmt.Errorf("durable writes: %w", err)
		}
		took = append(took, time.Since(start))
	}
	return SampleOf(took), ctx.Err()
}

func writeDurably(f *os.File, b []byte) error {
	if _, err := f.Write(b); err != nil {
		return err
	}
	return unix.Fdatasync(int(f.Fd()))
}

// log is a file that many writers append to and that one goroutine writes and
// syncs for all that wait: the least work that makes their records durable.
type log struct {
	file *os.File

	mu      sync.Mutex // guards the rest
	pending []byte
	waiting []chan error
	work    chan struct{} // buffered, 1
}

// groupAppends measures how many records of the size, appended by so many
// writers, become durable per second.
func groupAppends(ctx context.Context, dir string, writers, size int, d time.Duration) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "group"))
	if err != nil {
		return 0, fmt.Errorf("group appends: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the folder goes too
	defer f.Close()
	l := &log{file: f, work: make(chan struct{}, 1)}
	quit := make(chan struct{})
	var syncer sync.WaitGroup
	syncer.Go(func() { l.sync(quit) })
	record := make([]byte, size)
	n, elapsed, err := closedLoop(ctx, writers, d, func(context.Context, int) error { return l.append(record) })
	close(quit)
	syncer.Wait()
	if err != nil {
		return 0, fmt.Errorf("group appends: %w", err)
	}
	return perSecond(n, elapsed), nil
}

func (l *log) append(record []byte) error {
	done := make(chan error, 1)
	l.mu.Lock()
	l.pending = append(l.pending, record...)
	l.waiting = append(l.waiting, done)
	l.mu.Unlock()
	select {
	case l.work <- struct{}{}:
	default:
	}
	return <-done
}

// sync serves the writers until quit is closed, when none is left.
func (l *log) sync(quit <-chan struct{}) {
	for {
		select {
		case <-l.work:
		case <-quit:
			return
		}
		l.mu.Lock()
		records, waiting := l.pending, l.waiting
		l.pending, l.waiting = nil, nil
		l.mu.Unlock()
		err := writeDurably(l.file, records)
		for _, done := range waiting {
			done <- err
		}
	}
}

// closedLoop lets each of so many callers call f again and again for d, once at
// least, and returns how often f was done. The first error ends it.
func closedLoop(ctx context.Context, callers int, d time.Duration, f func(ctx context.Context, caller int) error) (int, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	counts, errs := make([]int, callers), make([]error, callers)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range callers {
		wg.Go(func() {
			for first := true; first || ctx.Err() == nil; first = false {
				if errs[i] = f(ctx, i); errs[i] != nil {
					cancel()
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	elapsed, total := time.Since(begin), 0
	for i, n := range counts {
		total += n
		if errors.Is(errs[i], context.DeadlineExceeded) {
			errs[i] = nil // the time was up within f
		}
	}
	return total, elapsed, errors.Join(errs...)
}

// forkExecs measures starting a process that does nothing, and its end.
func forkExecs(ctx context.Context, n int) (Sample, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		start := time.Now()
		if err := exec.CommandContext(ctx, "/bin/true").Run(); err != nil {
			return nil, fmt.Errorf("run /bin/true: %w", err)
		}
		took = append(took, time.Since(start))
	}
	return SampleOf(took), nil
}

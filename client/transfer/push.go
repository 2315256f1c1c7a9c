package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/localdir"
)

// PushOptions adjusts Push; the zero value works.
type PushOptions struct {
	// Cache is a file that remembers the chunks of files from one transfer of
	// the same folder and tree to the next; empty for none.
	Cache string
	// DryRun finds out what would be sent, and sends nothing.
	DryRun bool
	// Listed is told what the folder holds before anything is read or sent;
	// skipped are entries that are no file, folder or link.
	Listed   func(all Count, skipped []string)
	Progress Progress
	Now      func() time.Time // nil: time.Now
}

// PushResult tells what a push did. Of a dry run, Version is nil.
type PushResult struct {
	Version *stint.FileSetVersion
	Added   bool  // false where the current version holds the same
	All     Count // of the folder
	// Sent are chunks that the server lacked, and the files that they are of.
	// A chunk that occurs several times is sent once.
	Sent Count
	// Wire is how many bytes were sent and received: compressed chunks, their
	// names and the tree.
	Wire int64
}

const (
	pushAttempts = 3
	// sentAtOnce requests with chunks are on their way at once, each of about
	// bodyTarget bytes: with what is being read and compressed they stay below
	// 64 MiB of memory.
	sentAtOnce = 4
	bodyTarget = 4 << 20
	// askedAtOnce is how many names one question holds.
	askedAtOnce = 2048
)

var errChanged = errors.New("it was changed while it was being pushed; try again when nothing writes to it")

// Push makes the folder dir the new version of the tree: ErrUnsupported where
// the server does not know how. Chunks that have arrived stay, so that a push
// that failed can be repeated and sends what is missing then.
func Push(ctx context.Context, r Remote, dir string, o PushOptions) (PushResult, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = noProgress{}
	}
	trust := true // in what the cache says of the server
	for attempt := 1; ; attempt++ {
		done, err := pushOnce(ctx, r, dir, &o, trust)
		missing := errors.Is(err, ErrChunksMissing)
		if attempt == pushAttempts || !missing && !errors.Is(err, errChanged) {
			return done, err
		}
		trust = trust && !missing
		o.Listed = nil
	}
}

func pushOnce(ctx context.Context, r Remote, dir string, o *PushOptions, trust bool) (done PushResult, err error) {
	files, err := localdir.Open(ctx, dir)
	if err != nil {
		return PushResult{}, err
	}
	defer func() { _ = files.Close() }() // only read from
	all := Count{files.Files, files.Size}
	if o.Listed != nil {
		o.Listed(all, files.Skipped)
	}
	o.Progress.Expect(all.Bytes)
	p := &push{remote: r, files: files, o: o, found: make(chan ref, askedAtOnce), wanted: make(chan ref, askedAtOnce)}
	p.done.All = all
	if err := p.open(trust); err != nil {
		return PushResult{}, errors.Join(err, p.close())
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err = p.transfer(ctx); err == nil && !o.DryRun {
		err = p.commit(ctx)
	}
	p.scan.remember(err == nil && !o.DryRun)
	p.done.Wire = p.wire.Load()
	return p.done, err
}

// push is one attempt.
type push struct {
	remote Remote
	files  *localdir.Folder
	o      *PushOptions
	scan   *scan
	spool  *os.File // the tree
	out    *bufio.Writer
	found  chan ref // chunks of the folder, each once
	wanted chan ref // those of them that the server lacks
	done   PushResult
	wire   atomic.Int64
}

// ref says where in the folder a chunk lies.
type ref struct {
	treewire.Chunk
	path   string
	offset int64
}

func (p *push) open(trust bool) error {
	var err error
	if p.spool, err = os.CreateTemp("", "stint-tree-*"); err != nil {
		return fmt.Errorf("make room for the tree: %w", err)
	}
	p.out = bufio.NewWriterSize(p.spool, 64<<10)
	p.scan, err = newScan(p, trust)
	return err
}

func (p *push) close() error {
	if p.scan != nil {
		p.scan.close()
	}
	if p.spool == nil {
		return nil
	}
	return errors.Join(p.spool.Close(), os.Remove(p.spool.Name()))
}

// transfer reads, asks and sends at once.
func (p *push) transfer(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(p.found)
		return p.scan.all(ctx)
	})
	group.Go(func() error {
		defer close(p.wanted)
		return p.ask(ctx)
	})
	if p.o.DryRun {
		group.Go(func() error { return p.count(ctx) })
		return group.Wait()
	}
	counts := make([]Count, sentAtOnce)
	for i := range counts {
		group.Go(func() error {
			s := &sender{push: p}
			err := s.send(ctx)
			counts[i] = s.sent
			return err
		})
	}
	err := group.Wait()
	for _, c := range counts {
		p.done.Sent.Bytes += c.Bytes
	}
	return err
}

// ask finds out which chunks the server lacks.
func (p *push) ask(ctx context.Context) error {
	batch := make([]ref, 0, askedAtOnce)
	for more := true; more; {
		batch = batch[:0]
		for len(batch) < cap(batch) {
			var r ref
			if r, more = <-p.found; !more {
				break
			}
			batch = append(batch, r)
		}
		if len(batch) > 0 && ctx.Err() == nil {
			if err := p.askFor(ctx, batch); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (p *push) askFor(ctx context.Context, batch []ref) error {
	var question []byte
	for i := range batch {
		question = append(question, batch[i].Hash[:]...)
	}
	answer, err := p.remote.Missing(ctx, question)
	if err != nil {
		return err
	}
	p.wire.Add(int64(len(question) + len(answer)))
	lacking := map[treewire.Hash]bool{}
	for ; len(answer) >= len(treewire.Hash{}); answer = answer[len(treewire.Hash{}):] {
		lacking[treewire.Hash(answer)] = true
	}
	last := ""
	for _, r := range batch {
		if !lacking[r.Hash] {
			p.o.Progress.Done(int64(r.Raw))
			continue
		}
		if r.path != last {
			last = r.path
			p.done.Sent.Files++
		}
		select {
		case p.wanted <- r:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// count takes the place of sending in a dry run.
func (p *push) count(ctx context.Context) error {
	for r := range p.wanted {
		p.done.Sent.Bytes += int64(r.Raw)
		p.o.Progress.Done(int64(r.Raw))
	}
	return ctx.Err()
}

func (p *push) commit(ctx context.Context) error {
	size, err := p.spool.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	p.wire.Add(size)
	p.done.Version, p.done.Added, err = p.remote.PushTree(ctx, p.spool, size)
	return err
}

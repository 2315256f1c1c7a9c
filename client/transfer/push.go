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
	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
	"github.com/stint-dev/stint/internal/localdir"
)

// PushOptions configures Push. The zero value is valid.
type PushOptions struct {
	// Cache is the path of a file that records the chunks of the folder's files
	// for the next transfer. Use a separate file for each pair of a folder and an
	// artifact or volume. If Cache is empty, nothing is recorded.
	Cache string
	// DryRun computes the result without sending chunks or creating a version.
	DryRun bool
	// Listed, if not nil, is called before the first file is read. all counts the
	// files of the folder. skipped contains the paths of entries that are not
	// files, folders, or links.
	Listed   func(all Count, skipped []string)
	Progress Progress         // nil reports no progress
	Now      func() time.Time // nil means time.Now
}

// PushResult is the result of a push. Version is nil in a dry run.
type PushResult struct {
	Version *stint.FileSetVersion
	Added   bool  // false if the current version has the same content
	All     Count // all files of the folder and their size
	// Sent counts the files that contain chunks that the server lacked, and the
	// bytes of these chunks. A chunk that occurs several times is sent once.
	// In a dry run, Sent counts the chunks that would be sent.
	Sent Count
	// Wire is the number of bytes sent and received: compressed chunks, hashes, and
	// the tree.
	Wire int64
}

const (
	pushAttempts = 3
	// maxSends is the number of concurrent requests with chunks. A request has
	// about bodyTarget bytes. All buffers together use less than 64 MiB.
	maxSends   = 4
	bodyTarget = 4 << 20
	// maxAsked is the maximum number of hashes in a request for missing chunks.
	maxAsked = 2048
)

var errChanged = errors.New("the file changed during the push; try again when no program writes to it")

// Push stores the folder dir as a new version. It returns an error that wraps
// ErrUnsupported if the server does not support the exchange of chunks. The server
// keeps the chunks of a failed push, so that the next push sends only the others.
func Push(ctx context.Context, r Remote, dir string, o PushOptions) (PushResult, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = noProgress{}
	}
	trustCache := true // assume that the server has the chunks in the cache
	for attempt := 1; ; attempt++ {
		done, err := pushOnce(ctx, r, dir, &o, trustCache)
		missing := errors.Is(err, ErrChunksMissing)
		if attempt == pushAttempts || !missing && !errors.Is(err, errChanged) {
			return done, err
		}
		trustCache = trustCache && !missing
		o.Listed = nil
	}
}

func pushOnce(ctx context.Context, r Remote, dir string, o *PushOptions, trustCache bool) (done PushResult, err error) {
	files, err := localdir.Open(ctx, dir)
	if err != nil {
		return PushResult{}, err
	}
	defer func() { _ = files.Close() }() // it was only read
	all := Count{files.Files, files.Size}
	if o.Listed != nil {
		o.Listed(all, files.Skipped)
	}
	o.Progress.Expect(all.Bytes)
	p := &push{remote: r, files: files, o: o, found: make(chan chunkRef, maxAsked), wanted: make(chan chunkRef, maxAsked)}
	p.done.All = all
	if err := p.open(trustCache); err != nil {
		return PushResult{}, errors.Join(err, p.close())
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err = p.transfer(ctx); err == nil && !o.DryRun {
		err = p.commit(ctx)
	}
	p.scan.saveCache(err == nil && !o.DryRun)
	p.done.Wire = p.wire.Load()
	return p.done, err
}

// push is one attempt to push a folder.
type push struct {
	remote Remote
	files  *localdir.Folder
	o      *PushOptions
	scan   *scan
	spool  *os.File // temporary file with the tree
	out    *bufio.Writer
	found  chan chunkRef // from scan to ask: distinct chunks of the folder
	wanted chan chunkRef // from ask to the senders: chunks that the server lacks
	done   PushResult
	// lastSent is the path of the file with the last missing chunk, to count each
	// file once. Only askFor uses it.
	lastSent string
	sent     atomic.Int64 // bytes of sent chunks
	wire     atomic.Int64 // see PushResult.Wire
}

// chunkRef is a chunk with its file and its offset in the file.
type chunkRef struct {
	format.Chunk
	path   string
	offset int64
}

func (p *push) open(trustCache bool) error {
	var err error
	if p.spool, err = os.CreateTemp("", "stint-tree-*"); err != nil {
		return fmt.Errorf("create a temporary file: %w", err)
	}
	p.out = bufio.NewWriterSize(p.spool, 64<<10)
	p.scan, err = newScan(p, trustCache)
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

// transfer reads the folder, asks the server which chunks it lacks, and sends them. The
// three steps run concurrently.
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
	for range maxSends {
		group.Go(func() error {
			s := &sender{push: p}
			return s.send(ctx)
		})
	}
	err := group.Wait()
	p.done.Sent.Bytes = p.sent.Load()
	return err
}

// ask receives chunks from found, asks the server in batches which ones it lacks, and
// sends these to wanted.
func (p *push) ask(ctx context.Context) error {
	batch := make([]chunkRef, 0, maxAsked)
	for more := true; more; {
		batch = batch[:0]
		for len(batch) < cap(batch) {
			var r chunkRef
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

func (p *push) askFor(ctx context.Context, batch []chunkRef) error {
	var request []byte
	for i := range batch {
		request = append(request, batch[i].Hash[:]...)
	}
	response, err := p.remote.Missing(ctx, request)
	if err != nil {
		return err
	}
	p.wire.Add(int64(len(request) + len(response)))
	missing := map[treewire.Hash]bool{}
	for ; len(response) >= len(treewire.Hash{}); response = response[len(treewire.Hash{}):] {
		missing[treewire.Hash(response)] = true
	}
	for _, r := range batch {
		if !missing[r.Hash] {
			p.o.Progress.Done(int64(r.Size))
			continue
		}
		if r.path != p.lastSent {
			p.lastSent = r.path
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

// count counts the chunks in wanted. It replaces the senders in a dry run.
func (p *push) count(ctx context.Context) error {
	for r := range p.wanted {
		p.done.Sent.Bytes += int64(r.Size)
		p.o.Progress.Done(int64(r.Size))
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

package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/stint-dev/stint/internal/files/format"
	"github.com/stint-dev/stint/internal/files/treewire"
)

// PullOptions configures Pull. The zero value is valid.
type PullOptions struct {
	// Cache is the path of the cache file, as in PushOptions.
	Cache string
	// Delete removes entries that the version lacks, except ignored entries and
	// ignore files.
	Delete bool
	// DryRun makes Pull compute the result without changing anything.
	DryRun   bool
	Progress Progress
	Now      func() time.Time // nil: time.Now
	// Backoff is the pause before the first retry; 0 means 400 ms. Each further
	// pause is twice as long.
	Backoff time.Duration
}

// PullResult is the result of a pull.
type PullResult struct {
	All     Count // files of the version
	Written Count // files that were missing or different
	Fetched int64 // content bytes of fetched chunks
	Deleted int64 // entries
	// LeftOut are the links that were not written, because they point out of the folder.
	LeftOut []Link
	// Wire is the number of bytes sent and received: compressed chunks, selections,
	// and the tree.
	Wire int64
}

// Link is a symbolic link of a version.
type Link struct{ Path, Target string }

// Pull writes the contents, modes, times, links, and empty folders of the version to
// the folder dir and creates dir if it is missing. It never writes outside dir,
// even if the version or links in dir are malicious, and leaves out links that point
// out of dir. Each file is written under a
// temporary name and renamed when it is complete and verified. If a pull fails,
// another pull continues it. Pull does not sync files to disk.
func Pull(ctx context.Context, r Remote, dir string, o PullOptions) (done PullResult, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = noProgress{}
	}
	if o.Backoff == 0 {
		o.Backoff = 400 * time.Millisecond
	}
	p := &pull{remote: r, o: &o}
	if err := p.readTree(ctx); err != nil {
		return PullResult{}, err
	}
	if p.root, err = openTarget(dir, o.DryRun); err != nil {
		return PullResult{}, err
	}
	if p.root == nil { // a dry run with a missing folder
		p.sumUp()
		return p.done, nil
	}
	defer func() { err = errors.Join(err, p.root.Close()) }()
	if err := p.compare(ctx); err != nil {
		return PullResult{}, err
	}
	if o.DryRun {
		err = p.deleteExtra(ctx)
	} else {
		err = p.writeAll(ctx)
	}
	return p.done, err
}

// pull is the state of one call of Pull.
type pull struct {
	remote Remote
	o      *PullOptions
	root   *os.Root
	items  []*item
	byPath map[string]*item
	local  map[treewire.Hash]location // chunks in local files
	parts  []string                   // temporary files of interrupted pulls
	done   PullResult
}

// item is an entry of the version and its state in the folder.
type item struct {
	*format.Entry
	number    int64    // number of chunks in earlier items
	exists    bool     // the folder has an entry of that name
	unchanged bool     // the entry has the same content or target
	sameMeta  bool     // the entry has the same mode and time
	stat      fileStat // of a file that is unchanged or was written; otherwise zero
}

// location is the place of a chunk in a file below dir.
type location struct {
	path   string
	offset int64
}

// openTarget opens the folder to pull into and creates it if necessary. In a dry
// run it returns nil for a missing folder.
func openTarget(dir string, dry bool) (*os.Root, error) {
	if !dry {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("create the folder: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if dry && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	return root, nil
}

// readTree reads the version's tree. If the connection breaks, it reads the tree again
// from the start.
func (p *pull) readTree(ctx context.Context) error {
	return p.retry(ctx, func() (bool, error) {
		p.items, p.byPath, p.done = nil, map[string]*item{}, PullResult{}
		in, err := p.remote.OpenTree(ctx)
		if err != nil {
			return false, &permanentError{err}
		}
		counted := &counter{r: in}
		err = errors.Join(p.readItems(counted), in.Close())
		p.done.Wire += counted.n
		return false, err
	})
}

func (p *pull) readItems(in io.Reader) error {
	tree, err := treewire.NewTreeReader(in)
	if err != nil {
		return err
	}
	defer tree.Close()
	number := int64(0)
	for {
		e, err := tree.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := checkEntry(e); err != nil {
			return &permanentError{err}
		}
		if leaves(e) {
			p.done.LeftOut = append(p.done.LeftOut, Link{e.Path, e.Target})
			continue
		}
		i := &item{Entry: e, number: number}
		number += int64(len(e.Chunks))
		p.items = append(p.items, i)
		p.byPath[e.Path] = i
		if e.Kind == format.File {
			p.done.All.Files++
			p.done.All.Bytes += e.Size
		}
	}
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// permanentError is an error after which retry stops.
type permanentError struct{ cause error }

func (e *permanentError) Error() string { return e.cause.Error() }
func (e *permanentError) Unwrap() error { return e.cause }

// maxAttempts is the number of attempts without progress after which retry fails.
const maxAttempts = 6

// retry calls f until it succeeds, returns a permanentError or treewire.ErrMalformed,
// or fails maxAttempts times in a row without progress.
func (p *pull) retry(ctx context.Context, f func() (progress bool, err error)) error {
	for attempt := 1; ; attempt++ {
		progress, err := f()
		if err == nil {
			return nil
		}
		if stop, ok := errors.AsType[*permanentError](err); ok {
			return stop.cause
		}
		if progress {
			attempt = 1
		}
		if attempt == maxAttempts || ctx.Err() != nil || errors.Is(err, treewire.ErrMalformed) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(p.o.Backoff << (attempt - 1)):
		}
	}
}

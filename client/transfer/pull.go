package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/stint-dev/stint/internal/files/treewire"
)

// PullOptions adjusts Pull; the zero value works.
type PullOptions struct {
	// Cache is as in PushOptions.
	Cache string
	// Delete removes what the version lacks, except what ignore files name.
	Delete bool
	// DryRun finds out what would be done, and changes nothing.
	DryRun   bool
	Progress Progress
	Now      func() time.Time // nil: time.Now
	// Backoff is the first pause before what has broken off is asked for
	// again; 0 is 200 ms.
	Backoff time.Duration
}

// PullResult tells what a pull did.
type PullResult struct {
	All     Count // of the version
	Written Count // files that were not there or differed
	Fetched int64 // bytes of chunks that no local file had
	Deleted int64 // entries
	// Wire is how many bytes were sent and received: compressed chunks, their
	// numbers and the tree.
	Wire int64
}

// Pull makes the folder dir, which may be missing, hold what the version
// holds: contents, modes, times, links and empty folders. Nothing outside of
// dir is written, whatever the version or links in dir say. Each file is
// written under another name and moved to its place when it is whole and
// verified; a pull that failed can be repeated and goes on. It does not wait
// until the disk has everything.
func Pull(ctx context.Context, r Remote, dir string, o PullOptions) (done PullResult, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = noProgress{}
	}
	if o.Backoff == 0 {
		o.Backoff = 200 * time.Millisecond
	}
	p := &pull{remote: r, o: &o}
	if err := p.readTree(ctx); err != nil {
		return PullResult{}, err
	}
	if p.root, err = openTarget(dir, o.DryRun); err != nil {
		return PullResult{}, err
	}
	if p.root == nil { // a dry run on a folder that is missing
		return p.all(), nil
	}
	defer func() { err = errors.Join(err, p.root.Close()) }()
	if err := p.survey(ctx); err != nil {
		return PullResult{}, err
	}
	if o.DryRun {
		err = p.remove(ctx)
	} else {
		err = p.carryOut(ctx)
	}
	return p.done, err
}

// pull is one Pull.
type pull struct {
	remote Remote
	o      *PullOptions
	root   *os.Root
	items  []*item
	byPath map[string]*item
	places map[treewire.Hash]location // of chunks in local files
	// remains are files and links that an interrupted pull left.
	remains []string
	done    PullResult
}

// item is an entry of the version and what is to be done for it.
type item struct {
	*treewire.Entry
	number int64 // of its first chunk in the version
	found  bool  // something lies at its place
	keep   bool  // the content or target is there already
	same   bool  // mode and time, too
	stat   stat  // of the file that is there
}

// location says where a chunk lies in dir.
type location struct {
	path   string
	offset int64
}

// openTarget opens the folder to pull into, nil for one that is missing and
// shall not be made.
func openTarget(dir string, dry bool) (*os.Root, error) {
	if !dry {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("make the folder: %w", err)
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

// all is what a pull into an empty folder does.
func (p *pull) all() PullResult {
	p.done.Written = p.done.All
	seen := map[treewire.Hash]bool{}
	for _, i := range p.items {
		for _, c := range i.Chunks {
			if !seen[c.Hash] {
				seen[c.Hash] = true
				p.done.Fetched += int64(c.Raw)
			}
		}
	}
	return p.done
}

// readTree reads what the version holds, anew when it breaks off.
func (p *pull) readTree(ctx context.Context) error {
	return p.persist(ctx, func() (bool, error) {
		p.items, p.byPath, p.done = nil, map[string]*item{}, PullResult{}
		in, err := p.remote.OpenTree(ctx)
		if err != nil {
			return false, &final{err}
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
			return &final{err}
		}
		i := &item{Entry: e, number: number}
		number += int64(len(e.Chunks))
		p.items = append(p.items, i)
		p.byPath[e.Path] = i
		if e.Kind == treewire.File {
			p.done.All.Files++
			p.done.All.Bytes += e.Size
		}
	}
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// final marks an error that trying again does not help against.
type final struct{ cause error }

func (f *final) Error() string { return f.cause.Error() }
func (f *final) Unwrap() error { return f.cause }

// attempts bounds how often what breaks off is tried without progress.
const attempts = 6

// persist calls f until it succeeds, fails for good, or has failed often in a
// row without any progress.
func (p *pull) persist(ctx context.Context, f func() (progress bool, err error)) error {
	for attempt := 1; ; attempt++ {
		progress, err := f()
		if err == nil {
			return nil
		}
		if stop, ok := errors.AsType[*final](err); ok {
			return stop.cause
		}
		if progress {
			attempt = 1
		}
		if attempt == attempts || ctx.Err() != nil || errors.Is(err, treewire.ErrMalformed) {
			return err
		}
		timer := time.NewTimer(p.o.Backoff << attempt)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

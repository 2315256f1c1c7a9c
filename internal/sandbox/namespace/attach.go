//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/namespace/inside"
	"github.com/stint-dev/stint/internal/sandbox/warden"
	"github.com/stint-dev/stint/internal/sandbox/warden/session"
)

// Attach gives the sandbox its limits and further mounts. After an error other
// than ErrAttach or a sentence for the user it may have got some of them, and is
// to be closed.
func (b *box) Attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	if b.attached || b.session.Started() {
		return fmt.Errorf("%w: it was given more, or started, already", sandbox.ErrAttach)
	}
	if b.driver.inner != nil {
		return b.attachInner(r, mounts)
	}
	list := make([]inside.Mount, len(mounts))
	for i, m := range mounts {
		if err := m.Validate(); err != nil {
			return err
		}
		list[i] = inside.Mount{Target: m.Target, Source: m.Source, Writable: m.Writable}
	}
	if err := b.place(list); err != nil {
		return err
	}
	b.attached = true
	if limits, _ := b.now(); r == limits && len(list) == 0 {
		return nil // it has all that it is given, which is how most runs start
	}
	if err := b.group.Limit(b.driver.groupLimits(r)); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	b.mu.Lock()
	b.limits = r
	b.mu.Unlock()
	for first := true; first || len(list) > 0; first = false {
		some := list[:min(len(list), inside.MaxAttached)]
		list = list[len(some):]
		if err := b.hand(ctx, &inside.Attachment{Mounts: some, ShmMax: r.Memory / 2, TmpMax: r.Disk}); err != nil {
			return fmt.Errorf("attaching: %w", err)
		}
	}
	return nil
}

// hand gives init an attachment, with a tree for each of its mounts where init
// has no right to bind them itself.
func (b *box) hand(ctx context.Context, a *inside.Attachment) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if b.ranged {
		for i := range a.Mounts {
			tree, err := mapped(&a.Mounts[i], b.view)
			if err != nil {
				return err
			}
			files = append(files, tree)
			a.Mounts[i].FD = 1 // its place is told by the order
		}
	}
	paper, err := session.MemoryFile("attachment", a)
	if err != nil {
		return err
	}
	files = slices.Insert(files, 0, paper)
	_, err = b.session.Ask(ctx, warden.Message{Op: inside.OpAttach}, inside.OpAttached, b.lastWords, files...)
	return err
}

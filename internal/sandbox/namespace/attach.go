//go:build linux && (amd64 || arm64)

package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stint-dev/stint/internal/sandbox"
	"github.com/stint-dev/stint/internal/sandbox/agentinit"
	"github.com/stint-dev/stint/internal/sandbox/control"
	"github.com/stint-dev/stint/internal/sandbox/namespace/setup"
	"github.com/stint-dev/stint/internal/sandbox/overlay"
)

// Attach gives the sandbox its limits and further mounts. After an error other
// than ErrAttach, ErrOverlay or a sentence for the user it may have got some of
// them, and is to be closed.
func (b *box) Attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	if b.attached || b.session.Started() {
		return fmt.Errorf("%w: it was given more, or started, already", sandbox.ErrAttach)
	}
	if b.driver.inner != nil {
		return b.attachInner(r, mounts)
	}
	for _, m := range mounts {
		if err := m.Validate(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	before, uppers := b.mounts, len(b.uppers)
	b.mu.Unlock()
	err := b.attach(ctx, r, mounts)
	if _, told := errors.AsType[*sandbox.Error](err); told || errors.Is(err, sandbox.ErrOverlay) {
		b.attached = false
		b.own(before)
		return errors.Join(err, b.release(uppers))
	}
	return err
}

func (b *box) attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	list, err := b.expand(mounts)
	if err != nil {
		return err
	}
	if err := b.place(list); err != nil {
		return err
	}
	trees, err := b.trees(list)
	defer func() {
		for _, t := range trees {
			t.Close()
		}
	}()
	if err != nil {
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
	if err := b.handAll(ctx, r, list, trees); err != nil {
		return err
	}
	return b.countOverlays()
}

// trees are the mounts' where init has no right to make them itself; each such
// mount has the FD 1, as its place is told by the order.
func (b *box) trees(list []setup.Mount) ([]*os.File, error) {
	var trees []*os.File
	if !b.ranged {
		return nil, nil
	}
	for i := range list {
		if list[i].Twin != "" {
			continue
		}
		tree, err := b.mapped(&list[i], b.view)
		if err != nil {
			return trees, err
		}
		trees = append(trees, tree)
		list[i].FD = 1
	}
	return trees, nil
}

// handAll gives init all, in as many attachments as it takes.
func (b *box) handAll(ctx context.Context, r sandbox.Resources, list []setup.Mount, trees []*os.File) error {
	for first := true; first || len(list) > 0; first = false {
		some := list[:min(len(list), setup.MaxAttached)]
		list = list[len(some):]
		count := 0
		for _, m := range some {
			count += m.FD
		}
		err := b.hand(ctx, &setup.Attachment{Mounts: some, ShmMax: r.Memory / 2, TmpMax: r.Disk}, trees[:count])
		trees = trees[count:]
		if err == nil {
			continue
		}
		if first && strings.Contains(err.Error(), overlay.ErrRefused.Error()) {
			return fmt.Errorf("attaching: %w: %w", sandbox.ErrOverlay, err)
		}
		return fmt.Errorf("attaching: %w", err)
	}
	return nil
}

// hand gives init an attachment with its trees.
func (b *box) hand(ctx context.Context, a *setup.Attachment, trees []*os.File) error {
	paper, err := control.MemoryFile("attachment", a)
	if err != nil {
		return err
	}
	defer paper.Close()
	files := append([]*os.File{paper}, trees...)
	_, err = b.session.Ask(ctx, agentinit.Message{Op: setup.OpAttach}, setup.OpAttached, b.lastWords, files...)
	return err
}

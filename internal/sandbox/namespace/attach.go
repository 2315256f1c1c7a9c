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
func (sb *instance) Attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	sb.attachMu.Lock()
	defer sb.attachMu.Unlock()
	if sb.attached || sb.conn.Started() {
		return fmt.Errorf("%w: it was given more, or started, already", sandbox.ErrAttach)
	}
	if sb.driver.kernel != nil {
		return sb.attachKernel(r, mounts)
	}
	for _, m := range mounts {
		if err := m.Validate(); err != nil {
			return err
		}
	}
	sb.mu.Lock()
	before, uppers := sb.mounts, len(sb.uppers)
	sb.mu.Unlock()
	err := sb.attach(ctx, r, mounts)
	if _, told := errors.AsType[*sandbox.Error](err); told || errors.Is(err, sandbox.ErrOverlay) {
		sb.attached = false
		sb.setMounts(before)
		return errors.Join(err, sb.removeWorkDirs(uppers))
	}
	return err
}

func (sb *instance) attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	list, err := sb.expand(mounts)
	if err != nil {
		return err
	}
	if err := sb.placeMounts(list); err != nil {
		return err
	}
	trees, err := sb.mountTrees(list)
	defer func() {
		for _, t := range trees {
			t.Close()
		}
	}()
	if err != nil {
		return err
	}
	sb.attached = true
	if limits, _ := sb.limitsAndDirs(); r == limits && len(list) == 0 {
		return nil // it has all that it is given, which is how most runs start
	}
	if err := sb.group.Limit(sb.driver.groupLimits(r)); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	sb.mu.Lock()
	sb.limits = r
	sb.mu.Unlock()
	if err := sb.sendAttachments(ctx, r, list, trees); err != nil {
		return err
	}
	return sb.addOverlayDevices()
}

// trees are the mounts' where init has no right to make them itself; each such
// mount has the FD 1, as its place is told by the order.
func (sb *instance) mountTrees(list []setup.Mount) ([]*os.File, error) {
	var trees []*os.File
	if !sb.hasRange {
		return nil, nil
	}
	for i := range list {
		if list[i].AliasOf != "" {
			continue
		}
		tree, err := sb.mapMount(&list[i], sb.userns)
		if err != nil {
			return trees, err
		}
		trees = append(trees, tree)
		list[i].FD = 1
	}
	return trees, nil
}

// handAll gives init all, in as many attachments as it takes.
func (sb *instance) sendAttachments(ctx context.Context, r sandbox.Resources, list []setup.Mount, trees []*os.File) error {
	for first := true; first || len(list) > 0; first = false {
		some := list[:min(len(list), setup.MaxAttached)]
		list = list[len(some):]
		count := 0
		for _, m := range some {
			count += m.FD
		}
		err := sb.sendAttachment(ctx, &setup.Attachment{Mounts: some, ShmMax: r.Memory / 2, TmpMax: r.Disk}, trees[:count])
		trees = trees[count:]
		if err == nil {
			continue
		}
		if first && strings.Contains(err.Error(), overlay.ErrUnsupported.Error()) {
			return fmt.Errorf("attaching: %w: %w", sandbox.ErrOverlay, err)
		}
		return fmt.Errorf("attaching: %w", err)
	}
	return nil
}

// hand gives init an attachment with its trees.
func (sb *instance) sendAttachment(ctx context.Context, a *setup.Attachment, trees []*os.File) error {
	paper, err := control.MemoryFile("attachment", a)
	if err != nil {
		return err
	}
	defer paper.Close()
	files := append([]*os.File{paper}, trees...)
	_, err = sb.conn.Request(ctx, agentinit.Message{Op: setup.OpAttach}, setup.OpAttached, sb.initStderr, files...)
	return err
}

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

// Attach sets the limits and adds mounts. After ErrAttach, ErrOverlay, or a
// *sandbox.Error, the sandbox can still be used. After any other error, a part may
// have been applied, and the caller must close the sandbox.
func (sb *instance) Attach(ctx context.Context, r sandbox.Resources, mounts []sandbox.Mount) error {
	sb.attachMu.Lock()
	defer sb.attachMu.Unlock()
	if sb.attached || sb.conn.Started() {
		return fmt.Errorf("%w: it has been attached or started already", sandbox.ErrAttach)
	}
	if sb.driver.kernel != nil && len(mounts) > 0 {
		return fmt.Errorf("%w: its kernel cannot add mounts", sandbox.ErrAttach)
	}
	for _, m := range mounts {
		if err := m.Validate(); err != nil {
			return err
		}
	}
	sb.state.mu.Lock()
	before, uppers := sb.mounts, len(sb.state.uppers)
	sb.state.mu.Unlock()
	err := sb.attach(ctx, r, mounts)
	if _, userError := errors.AsType[*sandbox.Error](err); userError || errors.Is(err, sandbox.ErrOverlay) {
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
		return nil // nothing changes, which is the case for most runs
	}
	if err := sb.group.Limit(sb.driver.groupLimits(r)); err != nil {
		return fmt.Errorf("attaching: %w", err)
	}
	sb.state.mu.Lock()
	sb.state.limits = r
	sb.state.mu.Unlock()
	if sb.driver.kernel != nil {
		return nil // the file systems of the user-space kernel keep their sizes
	}
	if err := sb.sendAttachments(ctx, r, list, trees); err != nil {
		return err
	}
	return sb.addOverlayDevices()
}

// mountTrees returns an ID-mapped tree for each mount except aliases, in the order of the
// mounts, and sets the FD of these mounts to 1. If the server does not run as root,
// mountTrees returns no trees, because init then creates the mounts itself. The caller
// closes the trees, even after an error.
func (sb *instance) mountTrees(list []setup.Mount) ([]*os.File, error) {
	var trees []*os.File
	if !sb.ids.reserved {
		return nil, nil
	}
	for i := range list {
		if list[i].AliasOf != "" {
			continue
		}
		tree, err := sb.mapMount(&list[i], sb.ids.userns)
		if err != nil {
			return trees, err
		}
		trees = append(trees, tree)
		list[i].FD = 1
	}
	return trees, nil
}

// sendAttachments sends the mounts to init in one or more attachments.
func (sb *instance) sendAttachments(ctx context.Context, r sandbox.Resources, list []setup.Mount, trees []*os.File) error {
	for first := true; first || len(list) > 0; first = false {
		batch := list[:min(len(list), setup.MaxAttached)]
		list = list[len(batch):]
		count := 0
		for _, m := range batch {
			count += m.FD
		}
		err := sb.sendAttachment(ctx, &setup.Attachment{Mounts: batch, ShmMax: r.Memory / 2, TmpMax: r.Disk}, trees[:count])
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

// sendAttachment sends one attachment with its trees and waits for the answer.
func (sb *instance) sendAttachment(ctx context.Context, a *setup.Attachment, trees []*os.File) error {
	file, err := control.MemoryFile("attachment", a)
	if err != nil {
		return err
	}
	defer file.Close()
	files := append([]*os.File{file}, trees...)
	_, err = sb.conn.Request(ctx, agentinit.Message{Op: setup.OpAttach}, setup.OpAttached, sb.initStderr, files...)
	return err
}

package run

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/internal/files"
	"github.com/stint-dev/stint/internal/store"
)

// snapshotLimit bounds the time for storing the state of a run.
const snapshotLimit = 30 * time.Minute

// saved is the stored state of a run. The zero value is none.
type saved struct {
	checkpoint *store.Checkpoint
	version    *store.RunVersion
	snapshots  []files.Ref // snapshots that checkpoint and version refer to
}

// snapshot stores home and workspace. If storing fails, a completed run becomes a
// failed run. If the agent never started, or the state is lost, nothing is stored.
func snapshot(ctx context.Context, s *state) (undo, error) {
	if !s.started || s.outcome.discard && s.life.stateLost() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotLimit)
	defer cancel()
	var err error
	if s.saved, err = s.saveState(ctx); err != nil {
		s.output.System("error", s.saveFailed(err), nil)
	}
	return nil, nil
}

func (s *state) saveState(ctx context.Context) (saved, error) {
	begin := s.Now()
	workspace, exact, err := s.commitWorkspace(ctx)
	if err != nil {
		return saved{}, fmt.Errorf("store workspace: %w", err)
	}
	home, err := s.commitHome(ctx)
	if err != nil {
		return saved{}, fmt.Errorf("store home: %w", err)
	}
	metadata := s.since(begin)
	metadata["files"], metadata["bytes"] = workspace.Files, workspace.Size
	s.output.System("info", "Workspace and home are stored.", metadata)
	if exact {
		s.cacheWorkspace(ctx, workspace)
	}
	return saved{s.checkpoint(home, workspace), s.version(workspace), []files.Ref{home, workspace}}, nil
}

// saveFailed logs the error, turns a completed run into a failed one, and
// returns the message for the user. It does not change other outcomes.
func (s *state) saveFailed(err error) (message string) {
	s.log.Error("store the state of a run", "error", err)
	message = "The agent ended but its files could not be stored. Try again; the server's log has the details."
	if user, ok := errors.AsType[*stint.Error](err); ok {
		message = user.Message
	}
	if o := &s.outcome; !o.discard && o.status == stint.Completed {
		o.status, o.reason, o.message = stint.Failed, stint.ReasonSandboxError, message
	}
	return message
}

// setEpoch sets the epoch of garbage collection that belongs to the snapshots.
func (v *saved) setEpoch(epoch int64) {
	if v.checkpoint == nil {
		return
	}
	v.checkpoint.Epoch = epoch
	if v.version != nil {
		v.version.Commit.Epoch = epoch
	}
}

// commitHome stores the files of the conversation and its record. The stored files are
// always encrypted.
func (s *state) commitHome(ctx context.Context) (files.Ref, error) {
	if err := s.writeConversation(s.conversation()); err != nil {
		return files.Ref{}, err
	}
	return s.commitHomeFiles(ctx)
}

func (s *state) commitHomeFiles(ctx context.Context) (files.Ref, error) {
	return s.Library.CommitDir(ctx, s.a.OrgID, s.a.Plan.Home, s.dirs.Home, newHomeFiles(s.plan.State).dirOptions())
}

// commitWorkspace stores the workspace. If the workspace is an overlay, it reads only
// the upper layer. exact is true if the folder on disk is equal to the snapshot.
func (s *state) commitWorkspace(ctx context.Context) (ref files.Ref, exact bool, err error) {
	exact = true
	o := files.DirOptions{OnMismatch: func(string) { exact = false }}
	if s.upper == "" {
		ref, err = s.Library.CommitDir(ctx, s.a.OrgID, s.a.Plan.Workspace, s.dirs.Workspace, o)
	} else {
		ref, err = s.Library.CommitOverlay(ctx, s.a.OrgID, s.a.Plan.Workspace, s.upper, o)
	}
	return ref, exact, err
}

// cacheWorkspace moves a large workspace that has changed into the cache of checkouts,
// for the session's next run. It closes the sandbox first, because the sandbox uses
// the folder. A failure is logged and only makes the next run slower.
func (s *state) cacheWorkspace(ctx context.Context, ref files.Ref) {
	if !isLarge(ref) || ref.Digest == s.a.Plan.Workspace {
		return
	}
	if err := s.closeSandbox(ctx); err != nil {
		s.log.Warn("close sandbox", "error", err)
		return
	}
	dir := s.upper
	if s.base == nil {
		dir = s.dirs.Workspace
	}
	if err := s.Cache.Adopt(s.a.OrgID, ref.Digest, s.base, dir); err != nil {
		s.log.Warn("cache the workspace", "error", err)
	}
}

func (s *state) checkpoint(home, workspace files.Ref) *store.Checkpoint {
	spec, r := s.a.Plan, &s.a.Run
	c := &store.Checkpoint{OrgID: s.a.OrgID, HomeDigest: home.Digest, WorkspaceDigest: workspace.Digest}
	c.Checkpoint = stint.Checkpoint{
		ID: s.IDs.New(stint.PrefixCheckpoint), RunID: r.ID, SessionID: r.SessionID,
		AgentID: r.AgentID, AgentName: r.AgentName, AgentVersionID: s.a.AgentVersionID,
		Volumes: map[string]string{}, Variables: map[string]string{}, SecretNames: append([]string{}, spec.SecretNames...),
		CreatedAt: stint.TimeOf(s.Now()),
	}
	maps.Copy(c.Variables, spec.Variables)
	for _, v := range spec.Volumes {
		c.Volumes[v.Name] = v.Version
	}
	if spec.Artifact != nil {
		c.ArtifactName = &spec.Artifact.Name
	}
	return c
}

// version returns the artifact's new version, or nil if the run has no artifact.
func (s *state) version(workspace files.Ref) *store.RunVersion {
	a := s.a.Plan.Artifact
	if a == nil {
		return nil
	}
	now := stint.TimeOf(s.Now())
	return &store.RunVersion{
		Artifact: store.FileSet{OrgID: s.a.OrgID, FileSet: stint.FileSet{
			ID: s.IDs.New(stint.PrefixArtifact), Name: a.Name, Kind: stint.Artifacts, CreatedAt: now, UpdatedAt: now,
		}},
		Commit: store.Commit{
			OrgID: s.a.OrgID, Suffix: newSuffix(), Digest: workspace.Digest, Size: workspace.Size, FileCount: workspace.Files,
			Message: "Output of " + s.a.Run.ID, CreatedBy: "run:" + s.a.Run.ID, CreatedAt: now, Parent: a.Version,
		},
	}
}

// newSuffix returns the random part of a version's ID.
func newSuffix() string {
	b := make([]byte, 13)
	_, _ = rand.Read(b) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))[:20]
}
